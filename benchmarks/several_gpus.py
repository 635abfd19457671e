"""Several GPUs: TensorFlow's start with all visible, a stray context, and cudaMalloc with peers."""

from __future__ import annotations

from allocmark.asv.cells import Cell, Question
from allocmark.schema.device_meters import NVML_DEVICE
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.system.units import MIB

METER = NVML_DEVICE
"""Works everywhere: what a process holds is hidden in many containers."""


class FirstTensor(Question):
    """Time of the first tensor with all GPUs visible, the devices made before."""

    experiment = metrics.EXPERIMENT
    params = [["tf-greedy", "tf-growth"]]
    param_names = ["mode"]
    type = "time"
    unit = "seconds"

    def track_first_tensor(self, mode: str) -> Cell:
        return self.cell(mode, metrics.FIRST_TENSOR_SECONDS, visible=metrics.ALL)


class Stray(Question):
    """What a program that works on GPU 1 takes on GPU 0."""

    experiment = metrics.EXPERIMENT
    params = [["device=cuda:1, synchronize()", metrics.ONE_GPU_VISIBLE]]
    param_names = ["call"]
    unit = "bytes"

    def track_bytes(self, call: str) -> Cell:
        return self.cell("torch", metrics.STRAY_BYTES, call=call, gpu=0, meter=METER)


class Peers(Question):
    """cudaMalloc of 64 MiB on one GPU without peers, and with one."""

    experiment = metrics.EXPERIMENT
    params = [[0, 1]]
    param_names = ["peers"]
    type = "time"
    unit = "seconds"

    def track_malloc(self, peers: int) -> Cell:
        return self.cell("runtime", metrics.MALLOC_NS, peers=peers, bytes=64 * MIB)
