"""What the timing loops themselves cost, and whether a bare loop reads the same."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np

from allocmark.allocators.base import PythonCalls
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.latency.cells import CROSS_CHECK, CROSS_SIZES, CallCell
from allocmark.experiments.latency.levels import Bench, after_failure, in_short, out_of_memory
from allocmark.meters.timing import Loop, NativeLoop
from allocmark.meters.timing_cross import BareLoop, NativeBareLoop, PythonBareLoop
from allocmark.meters.timing_python import PythonLoop, nothing
from allocmark.schema.figure import Figure
from allocmark.schema.flags import OVER_10_PERCENT, OVER_20_NS
from allocmark.schema.metrics import latency as metrics
from allocmark.system.errors import NotMeasurableError

EMPTY_PAIR_NS = 20
CROSS_TOLERANCE = 0.10

_NATIVE_PAIRS, _PYTHON_PAIRS = 2000, 200
_CROSS_PAIRS = {"native": 32, "python": 10, "slow": 5}
"""Pairs in a batch of the cross check; slow: one calls the driver or TensorFlow's operation."""
_SLOW_BATCHES = 50
_CLOCK_RUNS = 20
_WARM_UP_S = 0.05


def measure_cost(bench: Bench, batches: int, recorder: Recorder) -> None:
    """Record the empty pair and the clock of each level's loop."""
    _warm_up()
    for level in metrics.LEVELS:
        loop = bench.loops.get(level)
        if loop is None:
            why = bench.why_empty(CallCell(metrics.MISS, metrics.PAIR, level, metrics.HOST)) or ""
            costs = metrics.EMPTY_PAIR_NS, metrics.CLOCK_NS
            recorder.unfilled([({"level": level}, costs)], why)
            continue
        empty, pairs = _empty(bench, loop)
        taken = bench.quiet.take(partial(empty.pairs, 0, pairs), batches)
        samples = [round(pair_ns * factor, 3) for pair_ns, factor in taken]
        meter = f"{loop.meter}, {pairs} empty pairs a batch"
        figure = metrics.EMPTY_PAIR_NS.sampled(
            meter, {"level": level}, samples, scaled_to_core_speed=True
        )
        if isinstance(loop, NativeLoop) and (figure.value or 0) > EMPTY_PAIR_NS:
            figure = replace(figure, flags=(*figure.flags, OVER_20_NS))
        recorder.figure(figure)
        clock = bench.clock if isinstance(loop, NativeLoop) else "perf_counter_ns"
        runs = bench.quiet.take(loop.clock_ns, _CLOCK_RUNS)
        samples = [round(float(np.median(clock_ns)) * factor, 1) for clock_ns, factor in runs]
        meter = f"{clock}, medians of {len(runs.readings[0])} readings"
        recorder.figure(
            metrics.CLOCK_NS.sampled(meter, {"level": level}, samples, scaled_to_core_speed=True)
        )


def measure_check(bench: Bench, batches: int, recorder: Recorder) -> None:
    """Record a pair as the allocator's timed loop and as a bare loop read it, in turns.

    What the bare loop calls is the library's own entry point: a timed loop that takes longer times
    something of ours.
    """
    for size in CROSS_SIZES:
        try:
            figures = _check(bench, size, batches)
        except NotMeasurableError as error:
            recorder.unfilled([({"bytes": size}, CROSS_CHECK)], str(error))
        except Exception as error:
            if not out_of_memory(error):
                raise
            after_failure(bench)
            recorder.unfilled([({"bytes": size}, CROSS_CHECK)], in_short(bench, size, error))
        else:
            for figure in figures:
                recorder.figure(figure)


def _warm_up() -> None:
    """Let the processor reach its working clock before anything is read."""
    loop = NativeLoop.empty("aoti")
    until = time.monotonic() + _WARM_UP_S
    while time.monotonic() < until:
        loop.pairs(0, _NATIVE_PAIRS)


def _empty(bench: Bench, loop: Loop) -> tuple[Loop, int]:
    if isinstance(loop, NativeLoop):
        return NativeLoop.empty(bench.native.shape if bench.native else "aoti"), _NATIVE_PAIRS
    return PythonLoop(PythonCalls(nothing), time.monotonic, loop.meter), _PYTHON_PAIRS


def _check(bench: Bench, size: int, batches: int) -> list[Figure]:
    reason = bench.why_not_fit(size)
    if reason:
        raise NotMeasurableError(reason)
    loop, bare = bench.loops[metrics.ALLOCATOR], _bare(bench)
    slow = not bench.caches or (bench.native is None and bench.allocator.slow_op)
    pairs = _CROSS_PAIRS["slow" if slow else "python" if bench.native is None else "native"]
    loop.pairs(size, pairs)
    bare.pairs(size, pairs)
    # Who goes first changes with each turn, so that neither always finds the caches warm.
    loop_first = cycle((True, False))

    def turn() -> tuple[float, float]:
        if next(loop_first):
            our = loop.pairs(size, pairs)
            return our, bare.pairs(size, pairs)
        their = bare.pairs(size, pairs)
        return loop.pairs(size, pairs), their

    taken = bench.quiet.take(turn, min(batches, _SLOW_BATCHES) if slow else batches)
    ours = [round(our * factor, 2) for (our, _), factor in taken]
    theirs = [round(their * factor, 2) for (_, their), factor in taken]
    bench.clean()
    axes = {"bytes": size}
    ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
    ratio = metrics.CROSS_CHECK_RATIO.sampled("both", axes, ratios)
    if abs((ratio.value or 0) - 1) > CROSS_TOLERANCE:
        ratio = replace(ratio, flags=(*ratio.flags, OVER_10_PERCENT))
    return [
        metrics.CROSS_CHECK_LOOP_NS.sampled(loop.meter, axes, ours, scaled_to_core_speed=True),
        metrics.CROSS_CHECK_PROGRAM_NS.sampled(bare.meter, axes, theirs, scaled_to_core_speed=True),
        ratio,
    ]


def _bare(bench: Bench) -> BareLoop:
    if bench.native is not None:
        return NativeBareLoop(bench.native)
    loop = bench.loops[metrics.ALLOCATOR]
    assert isinstance(loop, PythonLoop)  # Without C entry points there is no other.
    return PythonBareLoop(loop.calls)
