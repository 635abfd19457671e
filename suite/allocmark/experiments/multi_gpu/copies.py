"""torch: what a tensor copied to other GPUs takes, and what a miss costs before and after."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import CLOCK, Recorder
from allocmark.experiments.multi_gpu.devices import Cards, Cell, send
from allocmark.experiments.multi_gpu.devices import cells as card_cells
from allocmark.experiments.multi_gpu.forks import each_in_a_fork, shown_of
from allocmark.experiments.multi_gpu.peers import is_enabled
from allocmark.schema.device_meters import METERS
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.system.garbage import no_garbage_collection
from allocmark.system.units import MIB

COPIED_BYTES = 20 * MIB
MISSES = (20 * MIB, 200 * MIB)
COPIES = FIRST, NEXT = ("first", "next")
ENABLED = "cudaDeviceEnablePeerAccess"
"""It tells by its error whether it has been called before."""
_WARM_UP = 5


def measure_copies(uuids: Sequence[str], samples: int, recorder: Recorder) -> None:
    """Copy a tensor of GPU 0 to one GPU after the other; read and time in between."""
    each_in_a_fork(
        "copies",
        lambda: _copy_undisturbed(uuids, samples),
        lambda told: _send(told, recorder),
        copy_cells(len(uuids)),
        recorder,
    )


def _copy_undisturbed(uuids: Sequence[str], samples: int) -> dict[str, Any]:
    with no_garbage_collection(collect_first=True):
        return _copy(uuids, samples)


def _copy(uuids: Sequence[str], samples: int) -> dict[str, Any]:
    torch: Any = import_torch()
    gpus = len(uuids)
    tensors = [
        torch.empty(COPIED_BYTES, dtype=torch.uint8, device=f"cuda:{gpu}") for gpu in range(gpus)
    ]
    for gpu in range(gpus):
        torch.cuda.synchronize(gpu)
    torch.cuda.set_device(0)
    cards = Cards(uuids, range(gpus))
    told: dict[str, Any] = {"steps": []}
    for peer in range(gpus):
        step: dict[str, Any] = {}
        if peer:
            step["copies"] = [_copied(torch, tensors[peer], tensors[0], peer) for _ in COPIES]
        step["shown"] = [one.to_json() for one in cards.read()]
        step["misses"] = {size: _misses(torch, size, samples) for size in MISSES}
        told["steps"].append(step)
    told["enabled"] = [
        {"gpu": gpu, "peer": peer, "enabled": int(is_enabled(peer, gpu))}
        for gpu, peer in _pairs(gpus)
    ]
    return told


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


def _send(told: Mapping[str, Any], recorder: Recorder) -> None:
    for peer, step in enumerate(told["steps"]):
        axes: dict[str, Axis] = {"copied_to": peer}
        send("copy", shown_of(step["shown"]), axes, recorder, METERS)
        for copy, seconds in zip(COPIES, step.get("copies", ()), strict=False):
            place: dict[str, Axis] = {"peer": peer, "copy": copy}
            recorder.figure(Figure("copy_seconds", "s", "time", CLOCK, place, seconds))
        for size, times in step["misses"].items():
            _send_misses({**axes, "bytes": int(size)}, times, recorder)
    for one in told["enabled"]:
        axes = {"gpu": one["gpu"], "peer": one["peer"]}
        figure = Figure("access_enabled", "count", "exact", ENABLED, axes, one["enabled"])
        recorder.figure(figure)


def _send_misses(axes: Mapping[str, Axis], times: list[int] | str, recorder: Recorder) -> None:
    if isinstance(times, str):
        recorder.missing("miss_ns", "ns", times, axes)
    else:
        recorder.figure(sampled_figure("miss_ns", "ns", "time", "perf_counter", axes, times))


def copy_cells(gpus: int) -> Iterator[Cell]:
    """Yield the cells of `measure_copies`."""
    for peer in range(gpus):
        yield from card_cells("copy", gpus, {"copied_to": peer}, METERS)
        for size in MISSES:
            yield {"copied_to": peer, "bytes": size}, {"miss_ns": "ns"}
        for copy in COPIES if peer else ():
            yield {"peer": peer, "copy": copy}, {"copy_seconds": "s"}
    for gpu, peer in _pairs(gpus):
        yield {"gpu": gpu, "peer": peer}, {"access_enabled": "count"}
