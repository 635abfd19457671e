"""Fragmentation as a vector: what one run of a workload over an allocator cost, by every measure.

A single number hides what matters: a waste ratio says nothing about whether the free bytes are
one block or ten thousand, and neither says how many driver calls the waste has bought.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from allocmark.allocators.base import Allocator, Capability, Stats
from allocmark.cuda import runtime
from allocmark.experiments.shared.event_replay import Replay, Script, replay, spaced
from allocmark.schema.figure import Figure, Kind
from allocmark.schema.flags import DOES_NOT_REPEAT
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import fragmentation as metrics
from allocmark.system.errors import NotMeasurableError

POINTS = 300
_DEVICE_EVERY = 5
"""A curve has `POINTS` points; free memory is read at every fifth of them."""

_FULLEST = 300
"""Where only the driver knows what is held, free memory is read after so many events at the top."""

DEVICE_METER = "cudaMemGetInfo, sampled"
Curve = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Vector:
    """One run: metric's name to value (or to the reason why it has none), and its curve."""

    values: Mapping[str, float]
    reasons: Mapping[str, str]
    reserved_from_device: bool
    curve: Curve


def run_once(script: Script, allocator: Allocator) -> Vector:
    """Run a workload from the allocator's clean state and read the whole vector.

    Raises `NotMeasurableError` where it does not fit into the memory there is.
    """
    watch = _Watch(script, allocator)
    also = [script.peak_event] if watch.counts_reserved else script.fullest_events(_FULLEST)
    points = spaced(len(script), POINTS, also)
    result = replay(script, allocator, watch.look, points)
    if not result.completed:
        raise NotMeasurableError(
            f"ran out of memory at event {result.failed_event} of {len(script)}, asking for "
            f"{result.failed_request_bytes} bytes: {result.error}"
        )
    return watch.vector(result)


class _Watch:
    """Reads counters along a run."""

    def __init__(self, script: Script, allocator: Allocator) -> None:
        self._script, self._allocator = script, allocator
        self._first = allocator.stats()
        self.counts_reserved = self._first.reserved_bytes is not None
        self._last = self._at_peak = self._first
        self._largest_free: int | None = None
        self._free_at_start = runtime.memory_info()[0]
        self._device_peak = self._seen = 0
        self._columns: dict[str, list[float]] = {"event": [], "requested": []}

    def look(self, event: int) -> None:
        """Read after one event."""
        stats = self._last = self._allocator.stats()
        at_peak = event == self._script.peak_event
        device = None
        if not self.counts_reserved or at_peak or self._seen % _DEVICE_EVERY == 0:
            device = self._free_at_start - runtime.memory_info()[0]
            self._device_peak = max(self._device_peak, device)
        self._seen += 1
        if at_peak:
            self._at_peak = stats
            self._largest_free = self._allocator.largest_free_bytes()
        self._note("event", event)
        self._note("requested", self._script.live_bytes[event])
        self._note("allocated", stats.allocated_bytes)
        self._note("reserved", stats.reserved_bytes if self.counts_reserved else device)

    def _note(self, column: str, value: float | None) -> None:
        if value is not None:
            self._columns.setdefault(column, []).append(value)

    def vector(self, result: Replay) -> Vector:
        """Return the vector of the run that has just ended."""
        last, script = self._last, self._script
        reserved = last.peak_reserved_bytes if self.counts_reserved else self._device_peak
        calls = self._since_start(lambda stats: stats.driver_allocs)
        found: dict[Metric, float | None] = {
            metrics.PEAK_REQUESTED_BYTES: result.peak_requested_bytes,
            metrics.PEAK_ALLOCATED_BYTES: last.peak_allocated_bytes,
            metrics.PEAK_RESERVED_BYTES: reserved,
            metrics.DEVICE_BYTES: self._device_peak,
            metrics.WASTE_RATIO: 1 - result.peak_requested_bytes / reserved if reserved else None,
            metrics.LARGEST_FREE_BYTES: self._largest_free,
            # Of expandable segments torch counts none.
            metrics.SEGMENTS: self._at_peak.segments or None,
            metrics.DRIVER_ALLOCS: calls,
            metrics.DRIVER_FREES: self._since_start(lambda stats: stats.driver_frees),
            metrics.RETRIES: self._since_start(lambda stats: stats.retries),
            metrics.OOMS: self._since_start(lambda stats: stats.ooms) or 0,
            metrics.HIT_SHARE: None if calls is None else 1 - calls / max(1, script.allocations),
            metrics.REPLAY_SECONDS: result.seconds,
        }
        values = {metric.name: value for metric, value in found.items() if value is not None}
        reasons = {m.name: self._why_missing(m) for m, value in found.items() if value is None}
        return Vector(values, reasons, not self.counts_reserved, self._columns)

    def _since_start(self, read: Callable[[Stats], int | None]) -> int | None:
        first, last = read(self._first), read(self._last)
        return None if first is None or last is None else last - first

    def _why_missing(self, metric: Metric) -> str:
        name = self._allocator.name
        if metric is metrics.LARGEST_FREE_BYTES:
            if Capability.CACHE not in self._allocator.capabilities:
                return f"{name} keeps no free blocks"
            return f"{name} does not tell what free blocks it holds"
        if metric is metrics.SEGMENTS:
            return f"{name} does not count its segments"
        return f"{name} keeps no counter of this"


def figures(
    runs: Sequence[Vector], script: Script, allocator: Allocator, workload: str
) -> list[Figure]:
    """Return the cells of one workload: the first run's where bytes repeat, else all runs'.

    Exact cells whose runs differ all the same are flagged ``does-not-repeat``.
    """
    axes = {"workload": workload}
    cells: list[Figure] = []
    for metric in metrics.VECTOR:
        reason = next((r.reasons[metric.name] for r in runs if metric.name in r.reasons), None)
        if reason is not None:
            cells.append(metric.missing(reason, axes))
            continue
        samples = [run.values[metric.name] for run in runs]
        kind, meter = _kind_and_meter(metric, script, allocator, runs[0].reserved_from_device)
        if kind != "exact":
            cells.append(metric.sampled(meter, axes, samples, kind=kind))
            continue
        flags = (DOES_NOT_REPEAT,) if len(set(samples)) > 1 else ()
        cells.append(metric.figure(meter, axes, samples[0], samples, flags=flags))
    return cells


def repeats_exactly(script: Script, allocator: Allocator) -> bool:
    """Whether bytes and counts repeat: a deferred free returns when the GPU has passed it."""
    return Capability.EXACT in allocator.capabilities and not script.records_streams


def _kind_and_meter(
    metric: Metric, script: Script, allocator: Allocator, reserved_from_device: bool
) -> tuple[Kind, str]:
    if metric is metrics.REPLAY_SECONDS:
        return "time", "host clock"
    if metric is metrics.PEAK_REQUESTED_BYTES:
        return "exact", "trace"
    from_device = metric is metrics.DEVICE_BYTES or (
        reserved_from_device and metric in (metrics.PEAK_RESERVED_BYTES, metrics.WASTE_RATIO)
    )
    # Other processes can disturb what the driver says is free.
    exact = repeats_exactly(script, allocator) and not from_device
    return "exact" if exact else "sampled", DEVICE_METER if from_device else allocator.meter
