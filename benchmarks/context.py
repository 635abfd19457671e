"""What a CUDA context costs: time and memory by stage, and several side by side."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell

from .common import CACHE_TIMEOUT_S, measured

SUBJECTS = ["driver", "runtime", "torch"]
LOADING = ["LAZY", "EAGER"]
STAGES = [
    "import",
    "init",
    "context",
    "first tensor",
    "first kernel",
    "first memset",
    "first matrix product",
]
METER = "nvml_device"
"""Works everywhere: what a process holds is hidden in many containers."""


class _Context:
    version = "1"

    def setup_cache(self) -> str:
        return measured("context", ["stage_seconds", "stage_bytes", "process_bytes"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]


class Stages(_Context):
    """What each stage adds, from the import to the first matrix product."""

    params = [SUBJECTS, LOADING, STAGES]
    param_names = ["subject", "module_loading", "stage"]

    def track_seconds(self, cells: str, subject: str, loading: str, stage: str) -> Cell:
        return read_cell(cells, subject, "stage_seconds", module_loading=loading, stage=stage)

    track_seconds.type = "time"  # type: ignore[attr-defined]
    track_seconds.unit = "seconds"  # type: ignore[attr-defined]

    def track_bytes(self, cells: str, subject: str, loading: str, stage: str) -> Cell:
        axes = {"module_loading": loading, "stage": stage, "meter": METER}
        return read_cell(cells, subject, "stage_bytes", **axes)

    track_bytes.unit = "bytes"  # type: ignore[attr-defined]


class Processes(_Context):
    """What each of several idle processes holds."""

    params = [["driver", "torch"], [1, 2, 4, 8]]
    param_names = ["subject", "processes"]
    unit = "bytes"

    def track_bytes_each(self, cells: str, subject: str, processes: int) -> Cell:
        return read_cell(cells, subject, "process_bytes", processes=processes, meter=METER)
