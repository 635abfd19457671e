"""torch: what a tensor copied to other GPUs takes, and what a miss costs before and after."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import CLOCK, Cell, Recorder
from allocmark.experiments.multi_gpu.device_part import DevicePart, run_in_fork
from allocmark.experiments.multi_gpu.devices import DeviceMetrics, Devices
from allocmark.experiments.multi_gpu.peers import is_enabled
from allocmark.schema.device_meters import METERS
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.schema.metrics.multi_gpu import COPIES
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.system.garbage import no_garbage_collection
from allocmark.system.units import MIB

COPIED_BYTES = 20 * MIB
MISSES = (20 * MIB, 200 * MIB)
ENABLED = "cudaDeviceEnablePeerAccess"
"""It tells by its error whether it has been called before."""
HELD = DeviceMetrics(metrics.COPY_BYTES, metrics.COPY_CONTEXT, metrics.COPY_LISTED)
_WARM_UP = 5


class Copies(DevicePart):
    """A tensor of GPU 0 copied to one GPU after the other, read and timed in between."""

    name = "copies"

    def prepare(self) -> None:
        import_torch()  # What follows in a fork must find the GPUs untouched.

    def measure(self, recorder: Recorder) -> None:
        program = partial(_copy, self.uuids, self.parameters["samples"])
        run_in_fork("copies", program, _send, self.cells(), recorder)

    def cells(self) -> Iterator[Cell]:
        gpus = len(self.uuids)
        for peer in range(gpus):
            yield from HELD.cells(gpus, {"copied_to": peer}, METERS)
            for size in MISSES:
                yield {"copied_to": peer, "bytes": size}, (metrics.MISS_NS,)
            for copy in COPIES if peer else ():
                yield {"peer": peer, "copy": copy}, (metrics.COPY_SECONDS,)
        for gpu, peer in _pairs(gpus):
            yield {"gpu": gpu, "peer": peer}, (metrics.ACCESS_ENABLED,)


@no_garbage_collection(collect_first=True)
def _copy(uuids: Sequence[str], samples: int) -> dict[str, Any]:
    torch: Any = import_torch()
    gpus = len(uuids)
    tensors = [
        torch.empty(COPIED_BYTES, dtype=torch.uint8, device=f"cuda:{gpu}") for gpu in range(gpus)
    ]
    for gpu in range(gpus):
        torch.cuda.synchronize(gpu)
    torch.cuda.set_device(0)
    devices = Devices(uuids, range(gpus))
    steps: list[dict[str, Any]] = []
    for peer in range(gpus):
        step: dict[str, Any] = {}
        if peer:
            step["copies"] = [_copied(torch, tensors[peer], tensors[0], peer) for _ in COPIES]
        step["states"] = devices.read()
        step["misses"] = {size: _misses(torch, size, samples) for size in MISSES}
        steps.append(step)
    enabled = [(gpu, peer, int(is_enabled(peer, gpu))) for gpu, peer in _pairs(gpus)]
    return {"steps": steps, "enabled": enabled}


def _pairs(gpus: int) -> Iterator[tuple[int, int]]:
    for peer in range(1, gpus):
        yield 0, peer
        yield peer, 0


def _copied(torch: Any, to: Any, source: Any, peer: int) -> float:
    begin = time.perf_counter()
    to.copy_(source)
    torch.cuda.synchronize(0)
    torch.cuda.synchronize(peer)
    return time.perf_counter() - begin


def _misses(torch: Any, size: int, samples: int) -> list[int] | str:
    """Return the times of requests that find the cache empty, or why there are none."""
    times = []
    try:
        for _ in range(samples + _WARM_UP):
            torch.cuda.empty_cache()
            torch.cuda.synchronize(0)
            begin = time.perf_counter_ns()
            tensor = torch.empty(size, dtype=torch.uint8, device="cuda:0")
            times.append(time.perf_counter_ns() - begin)
            del tensor
        torch.cuda.empty_cache()
    except (torch.OutOfMemoryError, DeviceOutOfMemoryError) as error:
        return str(error).splitlines()[0]
    return times[_WARM_UP:]


def _send(result: Mapping[str, Any], recorder: Recorder) -> None:
    for peer, step in enumerate(result["steps"]):
        axes: dict[str, Axis] = {"copied_to": peer}
        HELD.send(step["states"], axes, recorder, METERS)
        for copy, seconds in zip(COPIES, step.get("copies", ()), strict=False):
            recorder.reading(metrics.COPY_SECONDS, CLOCK, {"peer": peer, "copy": copy}, seconds)
        for size, times in step["misses"].items():
            place: dict[str, Axis] = {**axes, "bytes": int(size)}
            if isinstance(times, str):
                recorder.figure(metrics.MISS_NS.missing(times, place))
            else:
                recorder.figure(metrics.MISS_NS.sampled(CLOCK, place, times))
    for gpu, peer, enabled in result["enabled"]:
        axes = {"gpu": gpu, "peer": peer}
        recorder.reading(metrics.ACCESS_ENABLED, ENABLED, axes, enabled)
