"""The context: what each stage costs by every meter, who creates one, what its size depends on."""

from __future__ import annotations

from allocmark.store.grid import BYTES, METRIC, Key, plain, size
from allocmark.store.panel import Panel
from allocmark.store.section import Where, make, with_span
from allocmark.store.table import Table

TITLE = "Context creation cost"

_PROBE = "context"
_METERS = {
    "nvml_process": "NVML process",
    "nvml_device": "NVML device",
    "mem_get_info": "cudaMemGetInfo",
}
WHO = Key("subject", "context of", order=("driver", "runtime", "torch", "cupy", "jax"))
_LOADING = Key("module_loading", "module loading", order=("LAZY", "EAGER"))
STAGE = Key(
    "stage",
    "stage",
    order=(
        "import",
        "init",
        "context",
        "first tensor",
        "first memset",
        "first kernel",
        "first matrix product",
    ),
)
_METER = Key(
    "axis_meter",
    "meter",
    lambda value: _METERS.get(plain(value), plain(value)),
    tuple(_METERS),
)
_CALL = Key("call", "call")
_BY_METER: tuple[tuple[str, tuple[Key, ...], str, str], ...] = (
    (
        "stage_bytes",
        (WHO, _LOADING, STAGE),
        "Device memory that each stage adds",
        "The first tensor (1 MiB) and its segment are among it.",
    ),
    (
        "total_bytes",
        (WHO, _LOADING, STAGE),
        "Device memory since before the first stage",
        "cudaMemGetInfo cannot be asked before there is a context.",
    ),
    (
        "processes_bytes",
        (WHO, Key("processes", "processes")),
        "Idle contexts side by side: all together",
        "",
    ),
    (
        "process_bytes",
        (WHO, Key("processes", "processes")),
        "Idle contexts side by side: each",
        "",
    ),
    ("call_bytes", (WHO, _CALL), "What NVML shows more after each call", ""),
    (
        "limited_context_bytes",
        (WHO, Key("limit", "limit"), Key("limit_bytes", "set to", size)),
        "Context and a kernel under device limits",
        "Stack is bytes for each thread; default is the untouched context.",
    ),
    (
        "live_bytes",
        (WHO, BYTES, Key("count", "live allocations")),
        "What live allocations add",
        "What is beyond count times size is the cost of managing and rounding them.",
    ),
)


def tables(panel: Panel) -> list[Table]:
    """Return seconds by stage, every byte figure by all meters, and the calls that trigger."""
    seconds: Where = {"metric": "stage_seconds"}
    made = [
        make(
            panel,
            _PROBE,
            seconds,
            down=(WHO, _LOADING),
            across=STAGE,
            name="seconds",
            title="Time of each stage",
            about="Wall time in a fresh process until the GPU has finished the stage.",
        )
    ]
    made += [
        _disagreement(
            make(
                panel,
                _PROBE,
                {"metric": metric},
                down=down,
                across=_METER,
                name=metric,
                title=title,
                about=about,
            )
        )
        for metric, down, title, about in _BY_METER
    ]
    made.append(
        make(
            panel,
            _PROBE,
            {"metric": "context_created"},
            down=(WHO, _CALL),
            across=METRIC,
            name="triggers",
            title="Calls that create a context",
            about="1: the process holds the primary context afterwards. Each in a fresh process.",
        )
    )
    return [table for table in made if table is not None]


def _disagreement(table: Table | None) -> Table | None:
    """Return the table with what its meters disagree by, where more than one has read."""
    return with_span(table, "disagreement") if table else None
