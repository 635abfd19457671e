"""Threads on streams: whether several of them allocate faster than one, with no GIL between."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from itertools import product

from allocmark.allocators.base import Allocator, NativeCalls
from allocmark.allocators.torch_caching import import_torch
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.shared.event_replay import restart
from allocmark.meters.timing import NativeLoop, ThreadEntry
from allocmark.schema.figure import Axis
from allocmark.schema.flags import FEWER_CPUS
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import streams as metrics
from allocmark.system.units import MIB

THREADS = (1, 2, 4, 8)
THREAD_BYTES = 1 * MIB
PAIRS = 1000
_METRICS = (metrics.THROUGHPUT_PER_S, metrics.THREAD_PAIR_NS, metrics.SPEEDUP)
_METER = "native threads"


def cells() -> Iterator[Cell]:
    """Yield the axes of every cell with its metrics."""
    for threads, stream in product(THREADS, metrics.THREAD_STREAMS):
        yield {"threads": threads, "stream": stream}, _metrics(threads)


def _metrics(threads: int) -> tuple[Metric, ...]:
    """Return the metrics of so many threads: one alone is what the others are held against."""
    return _METRICS if threads > 1 else _METRICS[:-1]


def measure(allocator: Allocator, device: int, repeats: int, recorder: Recorder) -> None:
    """Record every cell; one that fails holds its reason and disturbs no other."""
    calls = allocator.native()
    if calls is None:
        why = (
            f"{allocator.name} has no C entry points here, and Python threads would wait for "
            "the interpreter's lock"
        )
        recorder.unfilled(cells(), why)
        return
    loop = NativeLoop(calls)
    entry = _entry(calls, device)
    ways = list(product(THREADS, metrics.THREAD_STREAMS))
    # Streams are made ahead of time, for the driver takes memory for them.
    for threads in THREADS:
        allocator.stream_handle(threads)
    totals: dict[tuple[int, str], list[float]] = {way: [] for way in ways}
    failed: dict[tuple[int, str], str] = {}
    restart(allocator)
    # All cells in turns, so that drift of the machine meets each alike; the first turn fills the
    # cache and is left out.
    for turn in range(repeats + 1):
        for way in ways:
            if way not in failed:
                try:
                    total = _run(allocator, loop, entry, *way)
                    if turn:
                        totals[way].append(total)
                except Exception as error:
                    failed[way] = in_words(error)
                    recorder.failure(f"{way[0]} threads, {way[1]} stream", failed[way])
    _record(totals, failed, recorder)
    restart(allocator)


def _run(
    allocator: Allocator, loop: NativeLoop, entry: ThreadEntry, threads: int, stream: str
) -> float:
    numbers = range(1, threads + 1) if stream == metrics.OWN else [1] * threads
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
            recorder.unfilled([(axes, _metrics(threads))], why)
            continue
        # Each turn by its own: one thread is no steadier than several.
        turns = zip(ns, totals[1, stream], strict=True)
        flags = (FEWER_CPUS,) if threads > cpus else ()
        samples = (
            [threads * PAIRS * 1e9 / total for total in ns],
            [total / PAIRS for total in ns],
            [threads * alone / total for total, alone in turns],
        )
        for metric, read in zip(_metrics(threads), samples, strict=False):
            recorder.figure(metric.sampled(_METER, axes, read, flags=flags))


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
