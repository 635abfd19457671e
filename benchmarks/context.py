"""What a CUDA context costs: time and memory by stage, and several side by side."""

from __future__ import annotations

from allocmark.asv.cells import Cell, Question
from allocmark.schema.device_meters import NVML_DEVICE
from allocmark.schema.metrics import context as metrics

SUBJECTS = ["driver", "runtime", "torch"]
METER = NVML_DEVICE
"""Works everywhere: what a process holds is hidden in many containers."""


class Stages(Question):
    """What each stage adds, from the import to the first matrix product."""

    experiment = metrics.EXPERIMENT
    params = [SUBJECTS, list(metrics.LOADINGS), list(metrics.STAGES)]
    param_names = ["subject", "module_loading", "stage"]

    def track_seconds(self, subject: str, loading: str, stage: str) -> Cell:
        return self.cell(subject, metrics.STAGE_SECONDS, module_loading=loading, stage=stage)

    track_seconds.type = "time"  # type: ignore[attr-defined]
    track_seconds.unit = "seconds"  # type: ignore[attr-defined]

    def track_bytes(self, subject: str, loading: str, stage: str) -> Cell:
        return self.cell(
            subject, metrics.STAGE_BYTES, module_loading=loading, stage=stage, meter=METER
        )

    track_bytes.unit = "bytes"  # type: ignore[attr-defined]


class Processes(Question):
    """What each of several idle processes holds."""

    experiment = metrics.EXPERIMENT
    params = [["driver", "torch"], [1, 2, 4, 8]]
    param_names = ["subject", "processes"]
    unit = "bytes"

    def track_bytes_each(self, subject: str, processes: int) -> Cell:
        return self.cell(subject, metrics.PROCESS_BYTES, processes=processes, meter=METER)
