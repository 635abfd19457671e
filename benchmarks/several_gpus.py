"""Several GPUs: TensorFlow's start with all visible, a stray context, and cudaMalloc with peers."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell

from .common import CACHE_TIMEOUT_S, measured

METER = "nvml_device"
"""Works everywhere: what a process holds is hidden in many containers."""


class _SeveralGpus:
    version = "1"

    def setup_cache(self) -> str:
        return measured("several_gpus", ["first_tensor_seconds", "stray_bytes", "malloc_ns"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]


class FirstTensor(_SeveralGpus):
    """Time of the first tensor with all GPUs visible, the devices made before."""

    params = [["tf-greedy", "tf-growth"]]
    param_names = ["mode"]
    type = "time"
    unit = "seconds"

    def track_first_tensor(self, cells: str, mode: str) -> Cell:
        return read_cell(cells, mode, "first_tensor_seconds", visible="all")


class Stray(_SeveralGpus):
    """What a program that works on GPU 1 takes on GPU 0."""

    params = [["device=cuda:1, synchronize()", "CUDA_VISIBLE_DEVICES=1"]]
    param_names = ["call"]
    unit = "bytes"

    def track_bytes(self, cells: str, call: str) -> Cell:
        return read_cell(cells, "torch", "stray_bytes", call=call, gpu=0, meter=METER)


class Peers(_SeveralGpus):
    """cudaMalloc of 64 MiB on one GPU without peers, and with one."""

    params = [[0, 1]]
    param_names = ["peers"]
    type = "time"
    unit = "seconds"

    def track_malloc(self, cells: str, peers: int) -> Cell:
        return read_cell(cells, "runtime", "malloc_ns", peers=peers, bytes=64 << 20)
