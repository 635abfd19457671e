"""What TensorFlow's modes take and release, PyTorch at the same points of the same program."""

from __future__ import annotations

from allocmark.asv.cells import Cell, Question
from allocmark.schema.device_meters import NVML_DEVICE
from allocmark.schema.metrics import tensorflow_policy as metrics

MODES = ["tf-greedy", "tf-growth", "tf-limit", "tf-async", "torch"]
POINTS = [
    metrics.CREATED,
    metrics.FIRST_TENSOR,
    metrics.LIVE_PEAK,
    metrics.DROPPED,
    metrics.EMPTIED,
]
METER = NVML_DEVICE
"""Works everywhere: what a process holds is hidden in many containers."""


class Start(Question):
    """Time in fresh processes: to the device, and from there to the first tensor."""

    experiment = metrics.EXPERIMENT
    params = [MODES]
    param_names = ["mode"]
    type = "time"
    unit = "seconds"

    def track_device(self, mode: str) -> Cell:
        return self.cell(mode, metrics.DEVICE_SECONDS)

    def track_first_tensor(self, mode: str) -> Cell:
        return self.cell(mode, metrics.FIRST_TENSOR_SECONDS)


class Points(Question):
    """What is held at each point of the program, on the device and on the host."""

    experiment = metrics.EXPERIMENT
    params = [MODES, POINTS]
    param_names = ["mode", "point"]
    unit = "bytes"

    def track_device(self, mode: str, point: str) -> Cell:
        return self.cell(mode, metrics.HELD_BYTES, point=point, meter=METER)

    def track_host(self, mode: str, point: str) -> Cell:
        return self.cell(mode, metrics.HOST_BYTES, point=point)
