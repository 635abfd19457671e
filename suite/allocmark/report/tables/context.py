"""The context: what each stage costs by every meter, who creates one, what its size depends on."""

from __future__ import annotations

from allocmark.report.axes import CALL, METER
from allocmark.report.table_spec import TableSpec
from allocmark.schema.metrics import context as metrics
from allocmark.store.grid import BYTES, METRIC, Key, size
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
TABLES = (
    TableSpec(
        [metrics.STAGE_SECONDS],
        Message("Time of each stage"),
        (WHO, _LOADING),
        STAGE,
        about=Message("Wall time in a fresh process until the GPU has finished the stage."),
        name="seconds",
        leading=True,
    ),
    TableSpec(
        [metrics.STAGE_BYTES],
        Message("Device memory that each stage adds"),
        (WHO, _LOADING, STAGE),
        METER,
        about=Message("The first tensor (1 MiB) and its segment are among it."),
        span=_DISAGREEMENT,
    ),
    TableSpec(
        [metrics.TOTAL_BYTES],
        Message("Cumulative device memory by stage"),
        (WHO, _LOADING, STAGE),
        METER,
        about=Message("cudaMemGetInfo cannot be asked before there is a context."),
        span=_DISAGREEMENT,
        leading=True,
    ),
    TableSpec(
        [metrics.PROCESSES_BYTES],
        Message("Idle contexts side by side: all together"),
        (WHO, _PROCESSES),
        METER,
        span=_DISAGREEMENT,
        leading=True,
    ),
    TableSpec(
        [metrics.PROCESS_BYTES],
        Message("Idle contexts side by side: each"),
        (WHO, _PROCESSES),
        METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        [metrics.CALL_BYTES],
        Message("What NVML shows more after each call"),
        (WHO, CALL),
        METER,
        span=_DISAGREEMENT,
    ),
    TableSpec(
        [metrics.LIMITED_CONTEXT_BYTES],
        Message("Context and a kernel under device limits"),
        (WHO, Key("limit"), Key("limit_bytes", Message("set to"), size)),
        METER,
        about=Message(
            "Stack is bytes for each thread; default: no limit was changed. Each context has run a "
            "kernel with device functions (malloc, printf): the first kernel of the stages calls "
            "none, and holds less."
        ),
        span=_DISAGREEMENT,
    ),
    TableSpec(
        [metrics.LIVE_BYTES],
        Message("What live allocations add"),
        (WHO, BYTES, Key("count", Message("live allocations"))),
        METER,
        about=Message("What is beyond count times size is the cost of managing and rounding them."),
        span=_DISAGREEMENT,
    ),
    TableSpec(
        [metrics.CONTEXT_CREATED],
        Message("Calls that create a context"),
        (WHO, CALL),
        METRIC,
        about=Message(
            "1: the process holds the primary context afterwards. Each in a fresh process."
        ),
        name="triggers",
    ),
)
