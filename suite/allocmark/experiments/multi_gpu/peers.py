"""Peer access through the runtime: what it takes on each GPU, and what it costs cudaMalloc."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_int, c_uint
from typing import Any

from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.multi_gpu.devices import Cards, Cell, missing, send
from allocmark.experiments.multi_gpu.devices import cells as card_cells
from allocmark.experiments.multi_gpu.forks import each_in_a_fork, shown_of
from allocmark.schema.device_meters import METERS
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.garbage import no_garbage_collection
from allocmark.system.units import GIB, MIB

OF_ALL, OF_FIRST = MADE = ("of all GPUs", "of GPU 0")
"""Which contexts there are before: then access goes both ways, or from GPU 0 to the others."""
SIZES = (MIB, 64 * MIB, GIB)
CLOCK = "perf_counter, ctypes call"
CAN = "cudaDeviceCanAccessPeer"
ALREADY_ENABLED = 704
_UNREACHABLE = 217
_WARM_UP = 5


def measure_peers(uuids: Sequence[str], samples: int, recorder: Recorder) -> None:
    """Measure who can reach whom, the bytes, and the times."""
    gpus = len(uuids)
    each_in_a_fork(
        "who reaches whom",
        lambda: _reach(gpus),
        lambda told: _send_reach(told, recorder),
        reach_cells(gpus),
        recorder,
    )
    for made in MADE:
        each_in_a_fork(
            f"peer access, contexts {made}",
            lambda made=made: _bytes(made, uuids),  # type: ignore[misc]
            lambda told, made=made: _send_bytes(made, told, recorder),  # type: ignore[misc]
            byte_cells(made, gpus),
            recorder,
        )
    each_in_a_fork(
        "cudaMalloc with peers",
        lambda: _times(gpus, samples),
        lambda told: _send_times(told, recorder),
        time_cells(gpus),
        recorder,
    )


def enable(peer: int, gpu: int) -> None:
    """Let `gpu` access the memory of `peer`; both get a context. Raises `NotMeasurableError`."""
    runtime.call("cudaSetDevice", c_int(gpu))
    try:
        runtime.call("cudaDeviceEnablePeerAccess", c_int(peer), c_uint(0))
    except runtime.CudaRuntimeError as error:
        if error.code == _UNREACHABLE:
            raise NotMeasurableError(f"GPU {gpu} cannot reach the memory of GPU {peer}") from None
        raise


def is_enabled(peer: int, gpu: int) -> bool:
    """Whether `gpu` may access the memory of `peer` already; from here on it may, if it can."""
    try:
        enable(peer, gpu)
    except NotMeasurableError:
        return False
    except runtime.CudaRuntimeError as error:
        if error.code == ALREADY_ENABLED:
            return True
        raise
    return False


def _reach(gpus: int) -> list[list[int]]:
    can = c_int()
    rows = []
    for gpu in range(gpus):
        row = []
        for peer in range(gpus):
            if peer != gpu:
                runtime.call(CAN, byref(can), c_int(gpu), c_int(peer))
            row.append(0 if peer == gpu else can.value)
        rows.append(row)
    return rows


def _send_reach(told: Sequence[Sequence[int]], recorder: Recorder) -> None:
    for gpu, row in enumerate(told):
        for peer, can in enumerate(row):
            if peer != gpu:
                axes: dict[str, Axis] = {"gpu": gpu, "peer": peer}
                recorder.figure(Figure("can_access", "count", "exact", CAN, axes, can))


def _with_peers(gpus: int, both_ways: bool) -> Iterator[tuple[int, str | None]]:
    """Enable one peer after the other; yields how many, and why no more can be."""
    why: str | None = None
    for peers in range(gpus):
        if peers and not why:
            try:
                enable(peers, 0)
                if both_ways:
                    enable(0, peers)
            except Exception as error:
                why = in_words(error)
        yield peers, why


def _bytes(made: str, uuids: Sequence[str]) -> list[dict[str, Any]]:
    """Return a reading with none enabled, then one after each peer, or the reason."""
    gpus = len(uuids)
    for gpu in range(gpus if made == OF_ALL else 1):
        runtime.set_device(gpu)
    cards = Cards(uuids, range(gpus))
    told: list[dict[str, Any]] = []
    for _, why in _with_peers(gpus, both_ways=made == OF_ALL):
        shown = [] if why else [one.to_json() for one in cards.read()]
        told.append({"reason": why, "shown": shown})
    return told


def _send_bytes(made: str, told: Sequence[Mapping[str, Any]], recorder: Recorder) -> None:
    for peers, one in enumerate(told):
        axes: dict[str, Axis] = {"contexts": made, "peers": peers}
        if one["reason"]:
            missing(card_cells("peer", len(told), axes, METERS), one["reason"], recorder)
        else:
            send("peer", shown_of(one["shown"]), axes, recorder, METERS)


def _times(gpus: int, samples: int) -> list[dict[str, Any]]:
    """Return the times of each size with none enabled, then after each peer, both ways."""
    for gpu in range(gpus):
        runtime.set_device(gpu)
    told = []
    with no_garbage_collection(collect_first=True):
        for peers, why in _with_peers(gpus, both_ways=True):
            runtime.call("cudaSetDevice", c_int(0))
            for size in SIZES:
                timed = {"reason": why} if why else _timed(size, samples)
                told.append({"peers": peers, "bytes": size, **timed})
    return told


def _timed(size: int, samples: int) -> dict[str, Any]:
    mallocs: list[int] = []
    frees: list[int] = []
    try:
        for _ in range(samples + _WARM_UP):
            runtime.synchronize()
            begin = time.perf_counter_ns()
            block = runtime.malloc(size)
            made = time.perf_counter_ns()
            runtime.free(block)
            end = time.perf_counter_ns()
            mallocs.append(made - begin)
            frees.append(end - made)
    except DeviceOutOfMemoryError as error:
        return {"reason": str(error)}
    return {"malloc_ns": mallocs[_WARM_UP:], "free_ns": frees[_WARM_UP:]}


def _send_times(told: Sequence[Mapping[str, Any]], recorder: Recorder) -> None:
    for one in told:
        axes: dict[str, Axis] = {"peers": one["peers"], "bytes": one["bytes"]}
        if "reason" in one:
            missing([(axes, TIMES)], one["reason"], recorder)
            continue
        for metric in TIMES:
            recorder.figure(sampled_figure(metric, "ns", "time", CLOCK, axes, one[metric]))


TIMES = {"malloc_ns": "ns", "free_ns": "ns"}


def reach_cells(gpus: int) -> Iterator[Cell]:
    """Yield who can reach whom."""
    for gpu in range(gpus):
        for peer in range(gpus):
            if peer != gpu:
                yield {"gpu": gpu, "peer": peer}, {"can_access": "count"}


def byte_cells(made: str, gpus: int) -> Iterator[Cell]:
    """Yield the bytes of peer access."""
    for peers in range(gpus):
        yield from card_cells("peer", gpus, {"contexts": made, "peers": peers}, METERS)


def time_cells(gpus: int) -> Iterator[Cell]:
    """Yield the times of cudaMalloc and cudaFree."""
    for peers in range(gpus):
        for size in SIZES:
            yield {"peers": peers, "bytes": size}, TIMES


def peer_cells(gpus: int) -> Iterator[Cell]:
    """Yield every cell of `measure_peers`."""
    yield from reach_cells(gpus)
    for made in MADE:
        yield from byte_cells(made, gpus)
    yield from time_cells(gpus)
