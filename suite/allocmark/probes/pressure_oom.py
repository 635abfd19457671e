"""Runs towards an OOM: each workload in fixed shares of the memory it needs, watched on the way.

Whether a sign predicts a failed allocation can be scored only where it was seen early enough to
act on: what the ``*_before`` figures hold was read at least `LEAD_EVENTS` events before the
failure, in a completed run before the last allocation (after it nothing is left to fail).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from allocmark.allocators.base import Allocator, Stats
from allocmark.cuda import runtime
from allocmark.errors import NotMeasurableError
from allocmark.figures import Axis, Figure
from allocmark.probes.ballast import STEP_BYTES, Ballast
from allocmark.probes.recorder import Recorder, in_words
from allocmark.probes.replay import Replay, Script, replay, spaced
from allocmark.probes.replaying import open_streams
from allocmark.workloads import catalog

RATIOS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
"""Capacities, in live peaks of the workload."""
QUICK_RATIOS = (1.0, 1.2, 1.5)
_ORDER = (1.0, 1.2, 1.5, 1.1, 1.3, 2.0, 1.4, 1.7, 1.6, 1.8, 1.9)
"""Coarse to fine: what the time does not reach are steps in between."""
LEAD_EVENTS = 100
CACHE_SHARE = 0.3
"""The share of the cache that is said to be a sign; the first event that shows it is recorded."""
_POINTS = 200
METER = "allocator counters, in a ballast"

METRICS: Mapping[str, str] = {
    "capacity_bytes": "bytes",
    "completed": "share",
    "failed_event": "event",
    "failed_request_bytes": "bytes",
    "failed_cached_bytes": "bytes",
    "failed_largest_free_bytes": "bytes",
    "failed_device_free_bytes": "bytes",
    "retries": "retries",
    "retries_before": "retries",
    "cache_share_max": "ratio",
    "cache_share_max_before": "ratio",
    "cache_share_last_before": "ratio",
    "inactive_split_bytes_max_before": "bytes",
    "reserved_share_last_before": "ratio",
    "unreturnable_share_max_before": "ratio",
    "first_cache_share_event": "event",
    "first_retry_event": "event",
}
"""Metric to unit, in the order of the table."""


def axes_of(workload: str, ratio: float) -> dict[str, Axis]:
    """Return the place of one run."""
    return {"workload": workload, "capacity_ratio": ratio}


def measure_towards_oom(
    allocator: Allocator,
    device: int,
    workloads: Sequence[str],
    ratios: Sequence[float],
    seconds: float,
    recorder: Recorder,
) -> None:
    """Run all workloads in all capacities, as far as `seconds` reach, and send what was seen."""
    deadline = time.monotonic() + seconds
    scripts: dict[str, Script] = {}
    for workload in workloads:
        with recorder.stage(f"load {workload}"):
            scripts[workload] = Script.of(catalog.load(workload))
            open_streams(scripts[workload], allocator)
    with Ballast(device) as ballast:
        for ratio in (ratio for ratio in _ORDER if ratio in ratios):
            for workload, script in scripts.items():
                axes = axes_of(workload, ratio)
                with recorder.stage(f"{workload} in {ratio} live peaks"):
                    try:
                        if time.monotonic() > deadline:
                            raise NotMeasurableError(f"left out after {seconds:.0f} s")
                        _one(script, allocator, ballast, ratio, axes, recorder)
                    except Exception as error:
                        for metric, unit in METRICS.items():
                            recorder.missing(metric, unit, in_words(error), axes)
                        raise


@dataclass(frozen=True, slots=True)
class _Look:
    """One reading on the way."""

    event: int
    stats: Stats

    @property
    def cache_share(self) -> float:
        reserved = self.stats.reserved_bytes or 0
        return 1 - (self.stats.allocated_bytes or 0) / reserved if reserved else 0.0


def _one(
    script: Script,
    allocator: Allocator,
    ballast: Ballast,
    ratio: float,
    axes: Mapping[str, Axis],
    recorder: Recorder,
) -> None:
    reason = script.cannot_run(allocator)
    if reason is not None:
        raise NotMeasurableError(reason)
    allocator.restart()
    first = allocator.stats()
    wanted = -(-round(ratio * script.peak_requested_bytes) // STEP_BYTES) * STEP_BYTES
    free = ballast.leave(wanted - (first.reserved_bytes or 0))
    looks: list[_Look] = []
    at_failure: dict[str, float | None] = {}

    def look(event: int) -> None:
        looks.append(_Look(event, allocator.stats()))

    def failed(event: int) -> None:
        look(event)
        stats = looks[-1].stats
        at_failure["failed_cached_bytes"] = (stats.reserved_bytes or 0) - (
            stats.allocated_bytes or 0
        )
        at_failure["failed_largest_free_bytes"] = allocator.largest_free_bytes()
        at_failure["failed_device_free_bytes"] = runtime.memory_info()[0]

    result = replay(script, allocator, look, spaced(len(script), _POINTS), failed)
    capacity = free + (first.reserved_bytes or 0)
    found = _found(result, looks, script.last_allocation, first.retries, capacity) | at_failure
    found["capacity_bytes"] = capacity
    for metric, unit in METRICS.items():
        value = found.get(metric)
        if value is None:
            reason = _why_not(metric, result, first, allocator)
            recorder.missing(metric, unit, reason, axes)
        else:
            recorder.figure(Figure(metric, unit, "sampled", METER, axes, value, [value]))
    _series(looks, axes, recorder)


def _why_not(metric: str, result: Replay, first: Stats, allocator: Allocator) -> str:
    """Return why a run has no such figure."""
    if result.completed and metric.startswith("failed_"):
        return "it completed"
    if metric == "first_cache_share_event" or (
        metric == "first_retry_event" and first.retries is not None
    ):
        return "it never showed"
    return f"{allocator.name} does not tell this"


def _found(
    result: Replay,
    looks: Sequence[_Look],
    last_allocation: int,
    first_retries: int | None,
    capacity_bytes: int,
) -> dict[str, float | None]:
    """Return what the readings say, with None for what they do not."""
    horizon = last_allocation if result.failed_event is None else result.failed_event
    before = [look for look in looks if look.event <= horizon - LEAD_EVENTS]

    def retries(seen: Sequence[_Look]) -> float | None:
        if first_retries is None:
            return None
        return (seen[-1].stats.retries or 0) - first_retries if seen else 0

    def since(sign: Callable[[_Look], bool]) -> float | None:
        return next((look.event for look in looks if sign(look)), None)

    split = [look.stats.inactive_split_bytes for look in before]
    # What no emptying of the cache returns: live blocks, and what is free beside them.
    stuck = [
        (look.stats.allocated_bytes or 0) + look.stats.inactive_split_bytes
        for look in before
        if look.stats.inactive_split_bytes is not None
    ]
    reserved = before[-1].stats.reserved_bytes or 0 if before else 0
    return {
        "completed": int(result.completed),
        "failed_event": result.failed_event,
        "failed_request_bytes": None if result.completed else result.failed_request_bytes,
        "retries": retries(looks),
        "retries_before": retries(before),
        "cache_share_max": max((look.cache_share for look in looks), default=0.0),
        "cache_share_max_before": max((look.cache_share for look in before), default=0.0),
        "cache_share_last_before": before[-1].cache_share if before else 0.0,
        "inactive_split_bytes_max_before": max((s for s in split if s is not None), default=None),
        "reserved_share_last_before": reserved / capacity_bytes,
        "unreturnable_share_max_before": max(stuck) / capacity_bytes if stuck else None,
        "first_cache_share_event": since(lambda look: look.cache_share > CACHE_SHARE),
        "first_retry_event": None
        if first_retries is None
        else since(lambda look: (look.stats.retries or 0) > first_retries),
    }


def _series(looks: Sequence[_Look], axes: Mapping[str, Axis], recorder: Recorder) -> None:
    columns: dict[str, Sequence[float]] = {"event": [look.event for look in looks]}
    for name in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes", "retries"):
        values = [getattr(look.stats, name) for look in looks]
        if None not in values:
            columns[name] = values
    recorder.series("towards-oom", axes, **columns)
