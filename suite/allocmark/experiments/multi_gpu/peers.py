"""Peer access through the runtime: what it takes on each GPU, and what it costs cudaMalloc."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from ctypes import byref, c_int, c_uint
from functools import partial
from itertools import permutations
from typing import Any

from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.multi_gpu.device_part import DevicePart, run_in_fork
from allocmark.experiments.multi_gpu.devices import DeviceMetrics, Devices
from allocmark.schema.device_meters import METERS
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.garbage import no_garbage_collection
from allocmark.system.units import GIB, MIB

SIZES = (MIB, 64 * MIB, GIB)
CLOCK = "perf_counter, ctypes call"
CAN = "cudaDeviceCanAccessPeer"
HELD = DeviceMetrics(metrics.PEER_BYTES, metrics.PEER_CONTEXT, metrics.PEER_LISTED)
_TIMES = (metrics.MALLOC_NS, metrics.FREE_NS)
_ALREADY_ENABLED = 704
_UNREACHABLE = 217
_WARM_UP = 5


class Peers(DevicePart):
    """Who can reach whom, the bytes, and the times; parameter ``samples``: times of each size."""

    name = "peers"

    def prepare(self) -> None:
        runtime.library()

    def measure(self, recorder: Recorder) -> None:
        uuids, gpus = self.uuids, len(self.uuids)
        reach = partial(_reach, gpus)
        run_in_fork("who reaches whom", reach, _send_reach, reach_cells(gpus), recorder)
        for contexts in metrics.CONTEXTS:
            read, send = partial(_bytes, contexts, uuids), partial(_send_bytes, contexts)
            cells = byte_cells(contexts, gpus)
            run_in_fork(f"peer access, contexts {contexts}", read, send, cells, recorder)
        times = partial(_times, gpus, self.parameters["samples"])
        run_in_fork("cudaMalloc with peers", times, _send_times, time_cells(gpus), recorder)

    def cells(self) -> Iterator[Cell]:
        return peer_cells(len(self.uuids))


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
        if error.code == _ALREADY_ENABLED:
            return True
        raise
    return False


def _reach(gpus: int) -> list[tuple[int, int, int]]:
    """Return a GPU, another one, and whether it can reach that one's memory."""
    can, found = c_int(), []
    for gpu, peer in permutations(range(gpus), 2):
        runtime.call(CAN, byref(can), c_int(gpu), c_int(peer))
        found.append((gpu, peer, can.value))
    return found


def _send_reach(found: Sequence[tuple[int, int, int]], recorder: Recorder) -> None:
    for gpu, peer, can in found:
        recorder.reading(metrics.CAN_ACCESS, CAN, {"gpu": gpu, "peer": peer}, can)


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


def _bytes(contexts: str, uuids: Sequence[str]) -> list[dict[str, Any]]:
    """Return a reading with none enabled, then one after each peer, or the reason."""
    gpus = len(uuids)
    for gpu in range(gpus if contexts == metrics.OF_ALL else 1):
        runtime.set_device(gpu)
    devices = Devices(uuids, range(gpus))
    rows: list[dict[str, Any]] = []
    for _, why in _with_peers(gpus, both_ways=contexts == metrics.OF_ALL):
        read = [] if why else devices.read()
        rows.append({"reason": why, "states": read})
    return rows


def _send_bytes(contexts: str, rows: Sequence[Mapping[str, Any]], recorder: Recorder) -> None:
    for peers, row in enumerate(rows):
        axes: dict[str, Axis] = {"contexts": contexts, "peers": peers}
        if row["reason"]:
            recorder.unfilled(HELD.cells(len(rows), axes, METERS), row["reason"])
        else:
            HELD.send(row["states"], axes, recorder, METERS)


def _times(gpus: int, samples: int) -> list[dict[str, Any]]:
    """Return the times of each size with none enabled, then after each peer, both ways."""
    for gpu in range(gpus):
        runtime.set_device(gpu)
    rows = []
    with no_garbage_collection(collect_first=True):
        for peers, why in _with_peers(gpus, both_ways=True):
            runtime.call("cudaSetDevice", c_int(0))
            for size in SIZES:
                timed = {"reason": why} if why else _timed(size, samples)
                rows.append({"peers": peers, "bytes": size, **timed})
    return rows


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
    return {metrics.MALLOC_NS.name: mallocs[_WARM_UP:], metrics.FREE_NS.name: frees[_WARM_UP:]}


def _send_times(rows: Sequence[Mapping[str, Any]], recorder: Recorder) -> None:
    for row in rows:
        axes: dict[str, Axis] = {"peers": row["peers"], "bytes": row["bytes"]}
        if "reason" in row:
            recorder.unfilled([(axes, _TIMES)], row["reason"])
            continue
        for metric in _TIMES:
            recorder.figure(metric.sampled(CLOCK, axes, row[metric.name]))


def reach_cells(gpus: int) -> Iterator[Cell]:
    """Yield who can reach whom."""
    for gpu, peer in permutations(range(gpus), 2):
        yield {"gpu": gpu, "peer": peer}, (metrics.CAN_ACCESS,)


def byte_cells(contexts: str, gpus: int) -> Iterator[Cell]:
    """Yield the bytes of peer access."""
    for peers in range(gpus):
        yield from HELD.cells(gpus, {"contexts": contexts, "peers": peers}, METERS)


def time_cells(gpus: int) -> Iterator[Cell]:
    """Yield the times of cudaMalloc and cudaFree."""
    for peers in range(gpus):
        for size in SIZES:
            yield {"peers": peers, "bytes": size}, _TIMES


def peer_cells(gpus: int) -> Iterator[Cell]:
    """Yield every cell of `Peers`."""
    yield from reach_cells(gpus)
    for contexts in metrics.CONTEXTS:
        yield from byte_cells(contexts, gpus)
    yield from time_cells(gpus)
