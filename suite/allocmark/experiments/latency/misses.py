"""Misses, releases and first uses: one cycle of alloc, free and trim yields a reading of each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.latency.cells import CELLS, CallCell
from allocmark.experiments.latency.levels import Bench, after_failure, in_short, out_of_memory
from allocmark.meters.timing import Timed
from allocmark.schema.metrics import latency as metrics

_CELLS = [(path, call) for path, call in CELLS if path != metrics.HIT]


class _Cycle(NamedTuple):
    """An allocation that misses, its free, and the way of its memory back to the driver."""

    alloc: Timed
    free: Timed
    release: Timed


@dataclass
class _Readings:
    """The cycles of one level and size; the first one is the first use and no sample of a miss."""

    first: _Cycle
    cycles: list[_Cycle] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, path: str, call: str) -> list[Timed]:
        if path == metrics.FIRST:
            return [self.first.alloc if call == metrics.ALLOC else self.first.free]
        if path == metrics.GIVE_BACK:
            return [cycle.release for cycle in self.cycles]
        if call == metrics.PAIR:
            return [
                Timed(c.alloc.host_ns + c.free.host_ns, c.alloc.complete_ns + c.free.complete_ns)
                for c in self.cycles
            ]
        return [cycle.alloc if call == metrics.ALLOC else cycle.free for cycle in self.cycles]


def measure_misses(bench: Bench, parameters: Mapping[str, Any], recorder: Recorder) -> None:
    """Record every cell of these paths, size by size, the levels taking turns."""
    bench.clean()
    for size in parameters["sizes"]:
        reason = bench.why_not_fit(size)
        readings: dict[str, _Readings] = {}
        if reason is None:
            try:
                readings = _read(bench, size, parameters)
            except Exception as error:
                after_failure(bench)
                reason = in_short(bench, size, error)
                if not out_of_memory(error):
                    recorder.failure(f"misses of {size} bytes", reason)
        for level, (path, call), wait in product(metrics.LEVELS, _CELLS, metrics.WAITS):
            cell = CallCell(path, call, level, wait)
            why = bench.why_empty(cell) or reason
            if why is not None:
                recorder.figure(metrics.CALL_NS.missing(why, cell.axes(size)))
                continue
            found = readings[bench.read_as(level)].of(path, call)
            host = wait == metrics.HOST
            samples = [timed.host_ns if host else timed.complete_ns for timed in found]
            meter = bench.loops[level].meter
            if path == metrics.GIVE_BACK:
                meter = bench.release_meter or meter
            recorder.figure(metrics.CALL_NS.sampled(meter, cell.axes(size), samples))


def _read(bench: Bench, size: int, parameters: Mapping[str, Any]) -> dict[str, _Readings]:
    readings = {level: _Readings(_cycle(bench, level, size)) for level in bench.own_levels()}
    samples: int = parameters["miss_samples"]
    seconds: float = parameters["miss_seconds"]
    least: int = parameters["least_misses"]

    def wants_more(found: _Readings) -> bool:
        taken = len(found.cycles)
        if taken < least:
            return True
        # The mean so far stands for the next one: a budget is not to be overrun by a long cycle.
        return taken < samples and found.seconds * (taken + 1) / taken <= seconds

    while any(map(wants_more, readings.values())):
        for level, found in readings.items():
            if wants_more(found):
                begin = time.monotonic()
                found.cycles.append(_cycle(bench, level, size))
                found.seconds += time.monotonic() - begin
    return readings


def _cycle(bench: Bench, level: str, size: int) -> _Cycle:
    loop = bench.loops[level]
    bench.quiet.settle()
    alloc = loop.alloc(size)
    free = loop.free()
    return _Cycle(alloc, free, bench.timed_trim(free))
