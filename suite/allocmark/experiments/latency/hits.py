"""Hits: batches taken in turns over all sizes, single calls for the tail, completion apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.latency.cells import CELLS, CallCell, stream_ordered
from allocmark.experiments.latency.levels import Bench, after_failure, in_short, out_of_memory
from allocmark.meters.timing import Loop, NativeLoop, quantile_interval
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.flags import DRIVER_CALLS, NOISY_CPU, WIDE_INTERVAL, WIDE_SHARE
from allocmark.schema.intervals import histogram
from allocmark.schema.metrics import latency as metrics
from allocmark.system.units import GIB

_CELLS = [call for path, call in CELLS if path == metrics.HIT]
_ROUNDS = 4
_ONCE_FROM_BYTES = 4 * GIB
"""Larger sizes are visited once, with all their batches: to cache such a block takes too long."""
_BATCH = {True: (16, 5), False: (32, 10)}
"""Calls in a native and in a Python batch, by whether memory is handed out in stream order (which
takes longer): some 20 microseconds of cached hits, since a core seldom stays quiet for longer."""
_SLOW_OPS = 5
"""Operations in a batch where each takes some ten microseconds."""
_LIVE_BYTES = 4 * GIB
"""The blocks of an alloc-only batch take no more than this, nor a quarter of what is free."""
_SINGLES_AT_ONCE = 20
_SINGLES_TRIES = 4
"""Ten thousand single calls take longest of all: three quarters of them may be refused."""
_QUANTILE = 0.99


@dataclass
class _Readings:
    """What one level reads at one size, by call."""

    batches: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    singles: dict[str, list[NDArray[np.int64]]] = field(default_factory=lambda: defaultdict(list))
    completed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    meters: dict[str, str] = field(default_factory=dict)
    driver_calls: int = 0
    noisy: bool = False


def measure_hits(bench: Bench, parameters: Mapping[str, Any], recorder: Recorder) -> None:
    """Record every cell of the path ``hit``."""
    reasons: dict[int, str] = {}
    readings: dict[tuple[str, int], _Readings] = defaultdict(_Readings)
    if bench.caches:
        for size, share in _visits(parameters["sizes"]):
            reason = reasons.get(size)
            if reason is None:
                bench.clean()
                reason = bench.why_not_fit(size)
            if reason is None:
                try:
                    _visit(bench, size, share, parameters, readings)
                except Exception as error:
                    after_failure(bench)
                    reason = in_short(bench, size, error)
                    if not out_of_memory(error):
                        recorder.failure(f"hits of {size} bytes", reason)
            if reason is not None:
                reasons[size] = reason
        bench.clean()
    for size in parameters["sizes"]:
        for level, call, wait in product(metrics.LEVELS, _CELLS, metrics.WAITS):
            cell = CallCell(metrics.HIT, call, level, wait)
            why = bench.why_empty(cell) or reasons.get(size)
            if why is None:
                _record(readings[bench.read_as(level), size], cell, size, recorder)
            else:
                empty = (metrics.CALL_NS, *(metrics.SINGLE if wait == metrics.HOST else ()))
                recorder.unfilled([(cell.axes(size), empty)], why)


def _visits(sizes: Sequence[int]) -> list[tuple[int, float]]:
    """Return which sizes to visit in turn, each with the share of its readings to take then."""
    small = [size for size in sizes if size < _ONCE_FROM_BYTES]
    large = [(size, 1.0) for size in sizes if size >= _ONCE_FROM_BYTES]
    return [(size, 1 / _ROUNDS) for _ in range(_ROUNDS) for size in small] + large


def _visit(
    bench: Bench,
    size: int,
    share: float,
    parameters: Mapping[str, Any],
    readings: dict[tuple[str, int], _Readings],
) -> None:
    room = min(_LIVE_BYTES, bench.free_bytes() // 4) // size
    batches = ceil(parameters["hit_batches"] * share)
    singles = ceil(parameters["single_calls"] * share)
    for level in bench.own_levels():
        loop, found = bench.loops[level], readings[level, size]
        native, python = _BATCH[stream_ordered(bench.allocator)]
        pairs = native if isinstance(loop, NativeLoop) else python
        if level == metrics.OP and bench.allocator.slow_op:
            pairs = _SLOW_OPS
        blocks = max(1, min(pairs, room))
        found.meters = {
            metrics.PAIR: f"{loop.meter}, {pairs} calls a batch",
            metrics.ALLOC: f"{loop.meter}, {blocks} calls a batch",
            metrics.FREE: f"{loop.meter}, {blocks} calls a batch",
        }
        # What these take from the driver is cached afterwards.
        loop.many(size, blocks)
        loop.pairs(size, pairs)
        before = bench.allocator.stats().driver_allocs
        take = bench.quiet.take
        paired = take(partial(loop.pairs, size, pairs), batches)
        for pair_ns, factor in paired:
            found.batches[metrics.PAIR].append(round(pair_ns * factor, 2))
        apart = take(partial(loop.many, size, blocks), batches)
        for (alloc_ns, free_ns), factor in apart:
            found.batches[metrics.ALLOC].append(round(alloc_ns * factor, 2))
            found.batches[metrics.FREE].append(round(free_ns * factor, 2))
        found.noisy |= not (paired.quiet and apart.quiet)
        # Short runs of single calls: a core seldom stays quiet for long.
        singly = take(
            partial(loop.singles, size, _SINGLES_AT_ONCE),
            ceil(singles / _SINGLES_AT_ONCE),
            _SINGLES_TRIES,
        )
        for run, factor in singly:
            for call, taken_ns in run._asdict().items():
                scaled = np.rint(taken_ns * factor).astype(np.int64)
                found.singles[call.removesuffix("_ns")].append(scaled)
        after = bench.allocator.stats().driver_allocs
        found.driver_calls += (after or 0) - (before or 0)
        if bench.why_empty(CallCell(metrics.HIT, metrics.ALLOC, level, metrics.COMPLETE)) is None:
            _completed(bench, loop, size, batches, found)


def _completed(bench: Bench, loop: Loop, size: int, count: int, found: _Readings) -> None:
    """Time calls until the stream is synchronized; a pool that empties itself then has no frees."""

    def apart() -> tuple[float, float]:
        alloc = loop.alloc(size)
        return alloc.complete_ns, loop.free(wait=bench.keeps).complete_ns

    # The GPU has nothing to do for a hit: what is waited for moves with the core, as a call does.
    taken = bench.quiet.take(apart, count)
    found.completed[metrics.ALLOC] += [round(alloc_ns * factor) for (alloc_ns, _), factor in taken]
    found.noisy |= not taken.quiet
    if bench.keeps:
        found.completed[metrics.FREE] += [round(free_ns * factor) for (_, free_ns), factor in taken]
        pairs = bench.quiet.take(partial(loop.pair, size), count)
        found.completed[metrics.PAIR] += [
            round(pair.complete_ns * factor) for pair, factor in pairs
        ]
        found.noisy |= not pairs.quiet


def _record(found: _Readings, cell: CallCell, size: int, recorder: Recorder) -> None:
    axes = cell.axes(size)
    meter = found.meters[cell.call]
    single = f"{meter.split(',')[0]}, calls timed singly"
    noisy = (NOISY_CPU,) if found.noisy else ()
    if cell.wait == metrics.COMPLETE:
        recorder.figure(
            metrics.CALL_NS.sampled(
                single, axes, found.completed[cell.call], flags=noisy, scaled_to_core_speed=True
            )
        )
        return
    flags = (DRIVER_CALLS, *noisy) if found.driver_calls else noisy
    recorder.figure(
        metrics.CALL_NS.sampled(
            meter, axes, found.batches[cell.call], flags=flags, scaled_to_core_speed=True
        )
    )
    runs = found.singles[cell.call]
    recorder.figure(_middle(runs, f"{single}, medians of {len(runs[0])}", axes, flags))
    recorder.figure(_tail(np.concatenate(runs), single, axes, flags))


def _middle(
    runs: Sequence[NDArray[np.int64]], meter: str, axes: Mapping[str, Axis], flags: tuple[str, ...]
) -> Figure:
    """Return the median of the medians of short runs of calls timed one by one.

    At least a quarter of all calls took as long or longer, so the 99th percentile is not below it.
    """
    medians = [float(np.median(run)) for run in runs]
    made = metrics.CALL_P50_NS.sampled(meter, axes, medians, flags=flags, scaled_to_core_speed=True)
    samples, counts = histogram(medians)
    return replace(made, samples=samples, counts=counts)


def _tail(
    calls: NDArray[np.int64], meter: str, axes: Mapping[str, Axis], flags: tuple[str, ...]
) -> Figure:
    """Return the 99th percentile of calls timed one by one."""
    ordered = np.sort(calls)
    value = float(ordered[ceil(_QUANTILE * len(ordered)) - 1])
    interval = quantile_interval(ordered, _QUANTILE)
    if interval is None or interval[1] - interval[0] > WIDE_SHARE * value:
        flags = (WIDE_INTERVAL, *flags)
    samples, counts = histogram(ordered.tolist())
    return metrics.CALL_P99_NS.figure(
        meter,
        axes,
        value,
        samples,
        counts=counts,
        interval=interval,
        flags=flags,
        scaled_to_core_speed=True,
    )
