"""Threads on streams: whether several of them allocate faster than one, with no GIL between."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from allocmark.allocators.base import Allocator, NativeCalls
from allocmark.allocators.torch_caching import import_torch
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.shared.event_replay import restart
from allocmark.meters.timing import NativeLoop, ThreadEntry
from allocmark.schema.figure import Axis
from allocmark.schema.intervals import sampled_figure
from allocmark.system.units import MIB

THREADS = (1, 2, 4, 8)
STREAMS = ("own", "shared")
THREAD_BYTES = 1 * MIB
PAIRS = 1000
FLAG_FEWER_CPUS = "fewer-cpus"
_UNITS = {"throughput_per_s": "pairs/s", "thread_pair_ns": "ns", "speedup": "ratio"}
_METER = "native threads"


def expected() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the axes of every cell with its metrics and their units."""
    for threads, stream in product(THREADS, STREAMS):
        yield {"threads": threads, "stream": stream}, _UNITS


def measure(allocator: Allocator, device: int, repeats: int, recorder: Recorder) -> None:
    """Record every cell; one that fails holds its reason and disturbs no other."""
    calls = allocator.native()
    if calls is None:
        why = (
            f"{allocator.name} has no C entry points here, and Python threads would wait for "
            "the interpreter's lock"
        )
        leave_out(why, recorder)
        return
    loop = NativeLoop(calls)
    entry = _entry(calls, device)
    cells = list(product(THREADS, STREAMS))
    for threads, _ in cells:
        allocator.stream_handle(
            threads
        )  # Made ahead of time, for the driver takes memory for them.
    totals: dict[tuple[int, str], list[float]] = {cell: [] for cell in cells}
    failed: dict[tuple[int, str], str] = {}
    restart(allocator)
    # All cells in turns, so that drift of the machine meets each alike; the first turn fills the
    # cache and is left out.
    for turn in range(repeats + 1):
        for cell in cells:
            if cell not in failed:
                try:
                    total = _run(allocator, loop, entry, cell)
                    if turn:
                        totals[cell].append(total)
                except Exception as error:
                    failed[cell] = in_words(error)
                    recorder.failure(f"{cell[0]} threads, {cell[1]} stream", failed[cell])
    _record(totals, failed, recorder)
    restart(allocator)


def leave_out(why: str, recorder: Recorder) -> None:
    """Send the reason in place of every cell."""
    for axes, units in expected():
        for metric, unit in units.items():
            recorder.missing(metric, unit, why, axes)


def _run(
    allocator: Allocator, loop: NativeLoop, entry: ThreadEntry, cell: tuple[int, str]
) -> float:
    threads, stream = cell
    numbers = range(1, threads + 1) if stream == "own" else [1] * threads
    handles = [allocator.stream_handle(number) for number in numbers]
    return loop.threads(handles, entry, THREAD_BYTES, PAIRS)


def _record(
    totals: Mapping[tuple[int, str], list[float]],
    failed: Mapping[tuple[int, str], str],
    recorder: Recorder,
) -> None:
    cpus = len(os.sched_getaffinity(0))
    for (threads, stream), ns in totals.items():
        axes: dict[str, Axis] = {"threads": threads, "stream": stream}
        why = failed.get((threads, stream)) or failed.get((1, stream))
        if why:
            for metric, unit in _UNITS.items():
                recorder.missing(metric, unit, why, axes)
            continue
        samples = {
            "throughput_per_s": [threads * PAIRS * 1e9 / total for total in ns],
            "thread_pair_ns": [total / PAIRS for total in ns],
            # Each turn by its own: one thread is no steadier than several.
            "speedup": [
                threads * one / total for total, one in zip(ns, totals[1, stream], strict=True)
            ],
        }
        for metric, unit in _UNITS.items():
            figure = sampled_figure(metric, unit, "time", _METER, axes, samples[metric])
            if threads > cpus:
                figure = replace(figure, flags=(*figure.flags, FLAG_FEWER_CPUS))
            recorder.figure(figure)


def _entry(calls: NativeCalls, device: int) -> ThreadEntry:
    """Return what each thread must call: its device, and in torch its current stream."""
    set_device = runtime.address("cudaSetDevice")
    if calls.shape != "aoti":
        return ThreadEntry(device, set_device)
    library = ctypes.CDLL(f"{import_torch().__path__[0]}/lib/libtorch_cuda.so")
    create, delete = (
        ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        for name in ("aoti_torch_create_cuda_stream_guard", "aoti_torch_delete_cuda_stream_guard")
    )
    return ThreadEntry(device, set_device, create, delete)
