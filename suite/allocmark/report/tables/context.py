"""The context: what each stage costs by every meter, who creates one, what its size depends on."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import CALL, METER
from allocmark.report.table_spec import TableSpec, made
from allocmark.schema.metrics import context as metrics
from allocmark.store.grid import BYTES, METRIC, Key, size
from allocmark.store.panel import Panel
from allocmark.store.table import Table
from allocmark.system.message import Message

TITLE = Message("Context creation cost")
ORDER = 110

WHO = Key("subject", Message("context of"), order=("driver", "runtime", "torch", "cupy", "jax"))
STAGE = Key(
    "stage",
    order=(
        metrics.IMPORT,
        metrics.INIT,
        metrics.CONTEXT,
        metrics.TENSOR,
        # Of a subject that brings no kernel, in the place of one.
        metrics.MEMSET,
        metrics.KERNEL,
        metrics.PRODUCT,
    ),
)
_LOADING = Key("module_loading", order=metrics.LOADINGS)
_PROCESSES = Key("processes")
_DISAGREEMENT = Message("disagreement")
_SPECS = (
    TableSpec(
        name="seconds",
        title=Message("Time of each stage"),
        about=Message("Wall time in a fresh process until the GPU has finished the stage."),
        metrics=[metrics.STAGE_SECONDS],
        down=(WHO, _LOADING),
        across=STAGE,
        leading=True,
    ),
    TableSpec(
        name="stage_bytes",
        title=Message("Device memory that each stage adds"),
        about=Message("The first tensor (1 MiB) and its segment are among it."),
        metrics=[metrics.STAGE_BYTES],
        down=(WHO, _LOADING, STAGE),
        across=METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        name="total_bytes",
        title=Message("Device memory since before the first stage"),
        about=Message("cudaMemGetInfo cannot be asked before there is a context."),
        metrics=[metrics.TOTAL_BYTES],
        down=(WHO, _LOADING, STAGE),
        across=METER,
        span=_DISAGREEMENT,
        leading=True,
    ),
    TableSpec(
        name="processes_bytes",
        title=Message("Idle contexts side by side: all together"),
        metrics=[metrics.PROCESSES_BYTES],
        down=(WHO, _PROCESSES),
        across=METER,
        span=_DISAGREEMENT,
        leading=True,
    ),
    TableSpec(
        name="process_bytes",
        title=Message("Idle contexts side by side: each"),
        metrics=[metrics.PROCESS_BYTES],
        down=(WHO, _PROCESSES),
        across=METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        name="call_bytes",
        title=Message("What NVML shows more after each call"),
        metrics=[metrics.CALL_BYTES],
        down=(WHO, CALL),
        across=METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        name="limited_context_bytes",
        title=Message("Context and a kernel under device limits"),
        about=Message("Stack is bytes for each thread; default is the untouched context."),
        metrics=[metrics.LIMITED_CONTEXT_BYTES],
        down=(WHO, Key("limit"), Key("limit_bytes", Message("set to"), size)),
        across=METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        name="live_bytes",
        title=Message("What live allocations add"),
        about=Message("What is beyond count times size is the cost of managing and rounding them."),
        metrics=[metrics.LIVE_BYTES],
        down=(WHO, BYTES, Key("count", Message("live allocations"))),
        across=METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        name="triggers",
        title=Message("Calls that create a context"),
        about=Message(
            "1: the process holds the primary context afterwards. Each in a fresh process."
        ),
        metrics=[metrics.CONTEXT_CREATED],
        down=(WHO, CALL),
        across=METRIC,
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return seconds by stage, every byte figure by all meters, and the calls that trigger."""
    return made(panel, metrics.EXPERIMENT, _SPECS)
