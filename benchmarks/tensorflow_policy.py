"""What TensorFlow's modes take and give back, PyTorch at the same points of the same program."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell

from .common import CACHE_TIMEOUT_S, measured

MODES = ["tf-greedy", "tf-growth", "tf-limit", "tf-async", "torch"]
POINTS = ["device created", "first tensor", "live peak", "all dropped", "cache emptied"]
METER = "nvml_device"
"""Works everywhere: what a process holds is hidden in many containers."""


class _Policy:
    version = "1"

    def setup_cache(self) -> str:
        metrics = ["device_seconds", "first_tensor_seconds", "held_bytes", "host_bytes"]
        return measured("tensorflow_policy", metrics)

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]


class Start(_Policy):
    """Time in fresh processes: to the device, and from there to the first tensor."""

    params = [MODES]
    param_names = ["mode"]

    def track_device(self, cells: str, mode: str) -> Cell:
        return read_cell(cells, mode, "device_seconds")

    track_device.type = "time"  # type: ignore[attr-defined]
    track_device.unit = "seconds"  # type: ignore[attr-defined]

    def track_first_tensor(self, cells: str, mode: str) -> Cell:
        return read_cell(cells, mode, "first_tensor_seconds")

    track_first_tensor.type = "time"  # type: ignore[attr-defined]
    track_first_tensor.unit = "seconds"  # type: ignore[attr-defined]


class Points(_Policy):
    """What is held at each point of the program, on the device and on the host."""

    params = [MODES, POINTS]
    param_names = ["mode", "point"]
    unit = "bytes"

    def track_device(self, cells: str, mode: str, point: str) -> Cell:
        return read_cell(cells, mode, "held_bytes", point=point, meter=METER)

    def track_host(self, cells: str, mode: str, point: str) -> Cell:
        return read_cell(cells, mode, "host_bytes", point=point)
