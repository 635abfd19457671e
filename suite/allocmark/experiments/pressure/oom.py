"""Runs towards an OOM: each workload in fixed shares of the memory it needs, watched on the way.

Whether a sign predicts a failed allocation can be scored only where it was seen early enough to
act on: what the ``*_before`` figures hold was read at least `LEAD_EVENTS` events before the
failure, in a completed run before the last allocation (after it nothing is left to fail). A run
that ends earlier than that has none of them: nothing was read that they could hold.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocmark.allocators.base import Allocator, Stats
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.shared.ballast import STEP_BYTES, Ballast
from allocmark.experiments.shared.event_replay import Replay, Script, open_streams, replay, spaced
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads import catalog

RATIOS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
"""Capacities, in live peaks of the workload."""
QUICK_RATIOS = (1.0, 1.2, 1.5)
_ORDER = (1.0, 1.2, 1.5, 1.1, 1.3, 2.0, 1.4, 1.7, 1.6, 1.8, 1.9)
"""Coarse to fine: what the time does not reach are steps in between."""
LEAD_EVENTS = 100
LEVELS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Shares of which it is recorded when a sign first exceeded them: 30 % of cache is said to be one,
the others are for rules tuned later, which choose among them and so have a lead."""
FIRST_ABOVE = "first_above_event"
_POINTS = 200
METER = "allocator counters, in a ballast"
NEVER = "it never showed"
NO_LEAD = f"it ended before event {LEAD_EVENTS}: no reading lies {LEAD_EVENTS} events before that"
SIGNS = ("cache_share", "unreturnable_share")
"""Cached over reserved; what cannot be given back over capacity."""

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
    "first_retry_event": "event",
}
"""Metric to unit, in the order of the table."""


def axes_of(workload: str, ratio: float) -> dict[str, Axis]:
    """Return the place of one run."""
    return {"workload": workload, "capacity_ratio": ratio}


def cells(workload: str, ratio: float) -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of one run: axes, and the units of their metrics."""
    axes = axes_of(workload, ratio)
    yield axes, METRICS
    for sign in SIGNS:
        for level in LEVELS:
            yield {**axes, "sign": sign, "above": level}, {FIRST_ABOVE: "event"}


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
                        for place, metrics in cells(workload, ratio):
                            for metric, unit in metrics.items():
                                recorder.missing(metric, unit, in_words(error), place)
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

    @property
    def unreturnable_bytes(self) -> int | None:
        """What no emptying of the cache returns: live blocks, and what is free beside them."""
        split = self.stats.inactive_split_bytes
        return None if split is None else (self.stats.allocated_bytes or 0) + split


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
    early = bool(_before(result, looks, script.last_allocation))
    for metric, unit in METRICS.items():
        value = found.get(metric)
        if value is None:
            reason = _why_not(metric, result, first, allocator, early)
            recorder.missing(metric, unit, reason, axes)
        else:
            recorder.figure(Figure(metric, unit, "sampled", METER, axes, value, [value]))
    for place, event in _firsts(looks, capacity):
        where = {**axes, **place}
        if isinstance(event, str):
            recorder.missing(FIRST_ABOVE, "event", event, where)
        else:
            recorder.figure(Figure(FIRST_ABOVE, "event", "sampled", METER, where, event, [event]))
    _series(looks, axes, recorder)


def _why_not(metric: str, result: Replay, first: Stats, allocator: Allocator, early: bool) -> str:
    """Return why a run has no such figure; `early`: something was read early enough."""
    if result.completed and metric.startswith("failed_"):
        return "it completed"
    if metric.endswith("_before") and not early:
        return NO_LEAD
    if metric == "first_retry_event" and first.retries is not None:
        return NEVER
    return f"{allocator.name} does not tell this"


def _before(result: Replay, looks: Sequence[_Look], last_allocation: int) -> list[_Look]:
    """Return the readings that were early enough to act on."""
    end = last_allocation if result.failed_event is None else result.failed_event
    return [look for look in looks if look.event <= end - LEAD_EVENTS]


def _found(
    result: Replay,
    looks: Sequence[_Look],
    last_allocation: int,
    first_retries: int | None,
    capacity_bytes: int,
) -> dict[str, float | None]:
    """Return what the readings say, with None for what they do not."""
    before = _before(result, looks, last_allocation)

    def retries(seen: Sequence[_Look]) -> float | None:
        if first_retries is None or not seen:
            return None
        return (seen[-1].stats.retries or 0) - first_retries

    split = [look.stats.inactive_split_bytes for look in before]
    stuck = [look.unreturnable_bytes for look in before]
    return {
        "completed": int(result.completed),
        "failed_event": result.failed_event,
        "failed_request_bytes": None if result.completed else result.failed_request_bytes,
        "retries": retries(looks),
        "retries_before": retries(before),
        "cache_share_max": max((look.cache_share for look in looks), default=None),
        "cache_share_max_before": max((look.cache_share for look in before), default=None),
        "cache_share_last_before": before[-1].cache_share if before else None,
        "inactive_split_bytes_max_before": max((s for s in split if s is not None), default=None),
        "reserved_share_last_before": (before[-1].stats.reserved_bytes or 0) / capacity_bytes
        if before
        else None,
        "unreturnable_share_max_before": max(told) / capacity_bytes
        if (told := [n for n in stuck if n is not None])
        else None,
        "first_retry_event": None
        if first_retries is None
        else next((k.event for k in looks if (k.stats.retries or 0) > first_retries), None),
    }


def _share(sign: str, look: _Look, capacity_bytes: int) -> float | None:
    if sign == "cache_share":
        return look.cache_share
    stuck = look.unreturnable_bytes
    return None if stuck is None else stuck / capacity_bytes


def _firsts(
    looks: Sequence[_Look], capacity_bytes: int
) -> Iterator[tuple[dict[str, Axis], int | str]]:
    """Yield for each sign and level the first event that showed more, or why there is none."""
    for sign in SIGNS:
        shares = [(look.event, _share(sign, look, capacity_bytes)) for look in looks]
        told = [(event, share) for event, share in shares if share is not None]
        for level in LEVELS:
            first = next((event for event, share in told if share > level), None)
            why = NEVER if told else "the allocator does not tell this"
            yield {"sign": sign, "above": level}, why if first is None else first


def _series(looks: Sequence[_Look], axes: Mapping[str, Axis], recorder: Recorder) -> None:
    columns: dict[str, Sequence[float]] = {"event": [look.event for look in looks]}
    for name in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes", "retries"):
        values = [getattr(look.stats, name) for look in looks]
        if None not in values:
            columns[name] = values
    recorder.series("towards-oom", axes, **columns)
