"""Tasks on streams: what each use of streams makes the allocator hold, and what it costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from ctypes import c_int, c_size_t, c_void_p
from itertools import product

from allocmark.allocators.base import Allocator, Capability, Stats
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.shared.event_replay import Waits, restart
from allocmark.meters.quiet import CoreState, QuietCores
from allocmark.schema.figure import Axis, Kind
from allocmark.schema.flags import NOISY_CPU
from allocmark.schema.metrics import streams as metrics
from allocmark.schema.metrics.streams import HANDOFF, ONE_SHOT, PRIVATE, USES
from allocmark.system.units import MIB

SIZES = (1 * MIB, 2 * MIB, 32 * MIB)
"""The three classes of torch's segment sizes: 2 MiB, 20 MiB and as large as the block."""
COUNTS = (1, 2, 4, 8, 16)
TASKS = 64
_METRICS = (metrics.RESERVED_BYTES, metrics.PEAK_RESERVED_BYTES, metrics.PAIR_NS)
_ONE_SHOT_REPEATS = 4
"""Fewer than the others get: each leaves 16 streams behind, and the driver waits for them all."""
_QUIET_TASKS = 24
"""Where fewer came from a quiet core, the least disturbed of the others are taken too."""
_SCRATCH_BYTES = 256 * MIB
"""What a task makes the GPU write besides its block: some 70 microseconds of an H200, longer than
the host takes for a task, so that frees find the GPU still at work."""
_METERS = {
    PRIVATE: "Python loop over raw calls",
    HANDOFF: "Python loop over tensors",
    ONE_SHOT: "Python loop over raw calls",
}
_now = time.perf_counter_ns


def cells() -> Iterator[Cell]:
    """Yield the axes of every cell with its metrics."""
    for use, count, size in product(USES, COUNTS, SIZES):
        yield {"use": use, "streams": count, "bytes": size}, _METRICS


def measure(allocator: Allocator, quiet: QuietCores, repeats: int, recorder: Recorder) -> None:
    """Record every cell; one that fails holds its reason and disturbs no other."""
    gpu = _Gpu(allocator)
    for use, count, size in product(USES, COUNTS, SIZES):
        axes: dict[str, Axis] = {"use": use, "streams": count, "bytes": size}
        why = _why_empty(allocator, use, count)
        times = min(repeats, _ONE_SHOT_REPEATS) if use == ONE_SHOT else repeats
        try:
            runs = [
                _run(allocator, gpu, quiet, use, count, size) for _ in range(0 if why else times)
            ]
        except Exception as error:
            why = in_words(error)
            recorder.failure(f"{use} use of {count} streams", why)
        if why:
            recorder.unfilled([(axes, _METRICS)], why)
        else:
            _record(allocator, quiet, runs, axes, recorder)
    gpu.close()
    _clean(allocator)


def _record(
    allocator: Allocator,
    quiet: QuietCores,
    runs: list[_Run],
    axes: dict[str, Axis],
    recorder: Recorder,
) -> None:
    exact = Capability.EXACT in allocator.capabilities and axes["use"] != HANDOFF
    kind: Kind = "exact" if exact else "sampled"
    for metric, samples in (
        (metrics.RESERVED_BYTES, [stats.reserved_bytes for _, stats in runs]),
        (metrics.PEAK_RESERVED_BYTES, [stats.peak_reserved_bytes for _, stats in runs]),
    ):
        known = [value for value in samples if value is not None]
        if known:
            counters = f"counters of {allocator.framework}"
            recorder.figure(metric.sampled(counters, axes, known, kind=kind))
        else:
            recorder.figure(metric.missing(f"{allocator.name} does not tell what it holds", axes))
    times, noisy = quiet.choose([pair for pairs, _ in runs for pair in pairs], _QUIET_TASKS)
    recorder.figure(
        metrics.PAIR_NS.sampled(
            _METERS[str(axes["use"])],
            axes,
            [round(ns) for ns in times],
            flags=(NOISY_CPU,) if noisy else (),
            scaled_to_core_speed=True,
        )
    )


def _why_empty(allocator: Allocator, use: str, count: int) -> str | None:
    if use != HANDOFF:
        return None
    if Capability.RECORD_STREAM not in allocator.capabilities:
        return str(allocator.lacks(Capability.RECORD_STREAM))
    return "a handoff needs a second stream" if count == 1 else None


class _Gpu:
    """Work for the GPU on an allocator's streams: a block is written, a stream waits for another.

    Streams are numbered by the allocator; those of one-shot tasks are never used again.
    """

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self.waits = Waits(allocator)
        self._next = max(COUNTS) + 1
        # The driver's, not the allocator's: it must not show in what the allocator holds.
        self._scratch = runtime.malloc(_SCRATCH_BYTES)

    def close(self) -> None:
        """Wait for the work and give back what it needed."""
        runtime.synchronize()
        runtime.free(self._scratch)
        self.waits.close()

    def new_streams(self, count: int) -> list[int]:
        """Make streams that nobody has used."""
        numbers = list(range(self._next, self._next + count))
        self._next += count
        self._allocator.stream_handle(numbers[-1])
        return numbers

    def write(self, block: int, size_bytes: int, stream: int) -> None:
        """Queue a write of the whole block, and of much else to keep the stream busy."""
        handle = c_void_p(self._allocator.stream_handle(stream))
        for start, length in ((self._scratch, _SCRATCH_BYTES), (block, size_bytes)):
            runtime.call("cudaMemsetAsync", c_void_p(start), c_int(0), c_size_t(length), handle)


_Run = tuple[list[tuple[CoreState, float]], Stats]
"""What one run of all tasks of a cell read: its pairs, and the counters at the end."""


def _run(
    allocator: Allocator, gpu: _Gpu, quiet: QuietCores, use: str, count: int, size: int
) -> _Run:
    """Run the tasks of one cell from a clean state."""
    _clean(allocator)
    streams = gpu.new_streams(count) if use == ONE_SHOT else list(range(1, count + 1))
    allocator.stream_handle(streams[-1])
    tasks = count if use == ONE_SHOT else TASKS
    task: Callable[[Allocator, _Gpu, int, int, int], int] = _hand_off if use == HANDOFF else _keep
    quiet.settle()
    pairs: list[tuple[CoreState, float]] = []
    for i in range(tasks):
        before = quiet.look()
        pair_ns = task(allocator, gpu, size, streams[i % count], streams[(i + 1) % count])
        pairs.append((quiet.between(before, quiet.look()), pair_ns))
    return pairs if use == ONE_SHOT else pairs[count:], allocator.stats()


def _keep(allocator: Allocator, gpu: _Gpu, size: int, stream: int, _: int) -> int:
    begin = _now()
    block = allocator.alloc(size, stream)
    taken = _now() - begin
    gpu.write(block, size, stream)
    begin = _now()
    allocator.free(block, stream)
    return taken + _now() - begin


def _hand_off(allocator: Allocator, gpu: _Gpu, size: int, stream: int, user: int) -> int:
    begin = _now()
    block = allocator.alloc_shared(size, stream)
    taken = _now() - begin
    gpu.waits.wait(stream, user)
    gpu.write(block, size, user)
    begin = _now()
    allocator.record_stream(block, user)
    allocator.free(block, stream)
    return taken + _now() - begin


def _clean(allocator: Allocator) -> None:
    allocator.synchronize()
    restart(allocator)
