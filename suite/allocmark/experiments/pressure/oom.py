"""Runs towards an OOM: each workload in fixed shares of the memory it needs, watched on the way.

Whether a sign predicts a failed allocation can be scored only where it was seen early enough to
act on: what the ``*_before`` figures hold was read at least `LEAD_EVENTS` events before the
failure, in a completed run before the last allocation (after it nothing is left to fail). A run
that ends earlier than that has none of them: nothing was read that they could hold.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from allocmark.allocators.base import Allocator, Stats
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.shared.ballast import STEP_BYTES, Ballast
from allocmark.experiments.shared.event_replay import Replay, Script, open_streams, replay, spaced
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import pressure as metrics
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads import catalog

RATIOS = (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0)
"""Capacities, in live peaks of the workload."""
QUICK_RATIOS = (1.0, 1.2, 1.5)
_ORDER = (1.0, 1.2, 1.5, 1.1, 1.3, 2.0, 1.4, 1.7, 1.6, 1.8, 1.9)
"""Coarse to fine: what the time does not reach are steps in between."""
_POINTS = 200
METER = "allocator counters, in a ballast"
NEVER = "it never showed"
NEVER_CACHED = "no reading had a cache share above 30 % and a quarter of the capacity reserved"


def axes_of(workload: str, ratio: float) -> dict[str, Axis]:
    """Return the place of one run."""
    return {"workload": workload, "capacity_ratio": ratio}


def cells(workload: str, ratio: float) -> Iterator[Cell]:
    """Yield the cells of one run: axes, and their metrics."""
    axes = axes_of(workload, ratio)
    yield axes, metrics.ON_THE_WAY
    for sign in metrics.SIGNS:
        for level in metrics.LEVELS:
            yield {**axes, "sign": sign, "above": level}, (metrics.FIRST_ABOVE_EVENT,)


def measure_towards_oom(
    allocator: Allocator,
    device: int,
    recorder: Recorder,
    *,
    workloads: Sequence[str],
    ratios: Sequence[float],
    seconds: float,
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
                        recorder.unfilled(cells(workload, ratio), in_words(error))
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

    def reserves(self, capacity_bytes: int) -> bool:
        """Whether a fair share of the capacity is reserved."""
        return (self.stats.reserved_bytes or 0) >= metrics.FAIR_SHARE * capacity_bytes

    @property
    def split_share(self) -> float | None:
        """What is inactive split of the cache, None where the allocator does not count it."""
        split = self.stats.inactive_split_bytes
        cached = (self.stats.reserved_bytes or 0) - (self.stats.allocated_bytes or 0)
        return None if split is None or not cached else split / cached

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
    allocator.limit(free + (first.reserved_bytes or 0))
    looks: list[_Look] = []
    at_failure: dict[Metric, float | None] = {}

    def look(event: int) -> None:
        looks.append(_Look(event, allocator.stats()))

    def at_end(result: Replay, held: object) -> None:
        if result.completed:
            return
        look(result.events_done)
        stats = looks[-1].stats
        at_failure[metrics.FAILED_CACHED_BYTES] = (stats.reserved_bytes or 0) - (
            stats.allocated_bytes or 0
        )
        at_failure[metrics.FAILED_LARGEST_FREE_BYTES] = allocator.largest_free_bytes()
        at_failure[metrics.FAILED_DEVICE_FREE_BYTES] = runtime.memory_info()[0]

    result = replay(script, allocator, look, spaced(len(script), _POINTS), at_end=at_end)
    capacity = free + (first.reserved_bytes or 0)
    found = _found(result, looks, script.last_allocation, first.retries, capacity) | at_failure
    found[metrics.CAPACITY_BYTES] = capacity
    early = bool(_before(result, looks, script.last_allocation))
    for metric in metrics.ON_THE_WAY:
        value = found.get(metric)
        if value is None:
            reason = _why_not(metric, result, first, allocator, early)
            recorder.figure(metric.missing(reason, axes))
        else:
            recorder.figure(metric.figure(METER, axes, value, [value]))
    for place, event in _firsts(looks, capacity):
        where = {**axes, **place}
        if isinstance(event, str):
            recorder.figure(metrics.FIRST_ABOVE_EVENT.missing(event, where))
        else:
            recorder.figure(metrics.FIRST_ABOVE_EVENT.figure(METER, where, event, [event]))
    _series(looks, axes, recorder)


def _why_not(
    metric: Metric, result: Replay, first: Stats, allocator: Allocator, early: bool
) -> str:
    """Return why a run has no such figure; `early`: something was read early enough."""
    if result.completed and metric.name.startswith("failed_"):
        return "it completed"
    if metric in metrics.SEEN_BEFORE and not early:
        return metrics.NO_LEAD
    if metric is metrics.SPLIT_SHARE_OF_CACHE and first.inactive_split_bytes is not None:
        return NEVER_CACHED
    if metric is metrics.FIRST_RETRY_EVENT and first.retries is not None:
        return NEVER
    return f"{allocator.name} does not tell this"


def _before(result: Replay, looks: Sequence[_Look], last_allocation: int) -> list[_Look]:
    """Return the readings that were early enough to act on."""
    end = last_allocation if result.failed_event is None else result.failed_event
    return [look for look in looks if look.event <= end - metrics.LEAD_EVENTS]


def _found(
    result: Replay,
    looks: Sequence[_Look],
    last_allocation: int,
    first_retries: int | None,
    capacity_bytes: int,
) -> dict[Metric, float | None]:
    """Return what the readings say, with None for what they do not."""
    before = _before(result, looks, last_allocation)

    def retries(seen: Sequence[_Look]) -> float | None:
        if first_retries is None or not seen:
            return None
        return (seen[-1].stats.retries or 0) - first_retries

    shares = [look.cache_share for look in before]
    fair = [look for look in looks if look.reserves(capacity_bytes)]
    of_cache = [
        share
        for look in fair
        if look.cache_share > metrics.CACHE_LEVEL and (share := look.split_share) is not None
    ]
    split = [s for look in before if (s := look.stats.inactive_split_bytes) is not None]
    unreturnable = [
        n / capacity_bytes for look in before if (n := look.unreturnable_bytes) is not None
    ]
    reserved = (before[-1].stats.reserved_bytes or 0) / capacity_bytes if before else None
    return {
        metrics.COMPLETED: int(result.completed),
        metrics.FAILED_EVENT: result.failed_event,
        metrics.FAILED_REQUEST_BYTES: None if result.completed else result.failed_request_bytes,
        metrics.RETRIES: retries(looks),
        metrics.RETRIES_BEFORE: retries(before),
        metrics.CACHE_SHARE_MAX: max((look.cache_share for look in looks), default=None),
        metrics.CACHE_SHARE_MAX_BEFORE: max(shares, default=None),
        # Before a fair share is reserved there is no cache to speak of.
        metrics.RESERVED_CACHE_SHARE_MAX_BEFORE: max(
            (look.cache_share if look.reserves(capacity_bytes) else 0.0 for look in before),
            default=None,
        ),
        metrics.SPLIT_SHARE_OF_CACHE: statistics.median(of_cache) if of_cache else None,
        metrics.CACHE_SHARE_LAST_BEFORE: shares[-1] if shares else None,
        metrics.INACTIVE_SPLIT_BYTES_MAX_BEFORE: max(split, default=None),
        metrics.RESERVED_SHARE_LAST_BEFORE: reserved,
        metrics.UNRETURNABLE_SHARE_MAX_BEFORE: max(unreturnable, default=None),
        metrics.FIRST_RETRY_EVENT: None
        if first_retries is None
        else next((k.event for k in looks if (k.stats.retries or 0) > first_retries), None),
    }


def _firsts(
    looks: Sequence[_Look], capacity_bytes: int
) -> Iterator[tuple[dict[str, Axis], int | str]]:
    """Yield for each sign and level the first event that showed more, or why there is none."""
    unreturnable = [(k.event, n) for k in looks if (n := k.unreturnable_bytes) is not None]
    shares = {
        metrics.CACHE_SHARE: [(look.event, look.cache_share) for look in looks],
        metrics.RESERVED_CACHE_SHARE: [
            (look.event, look.cache_share) for look in looks if look.reserves(capacity_bytes)
        ],
        metrics.UNRETURNABLE_SHARE: [(event, n / capacity_bytes) for event, n in unreturnable],
    }
    for sign in metrics.SIGNS:
        known = shares[sign]
        for level in metrics.LEVELS:
            first = next((event for event, share in known if share > level), None)
            why = (
                NEVER
                if known or sign != metrics.UNRETURNABLE_SHARE
                else "the allocator does not tell this"
            )
            yield {"sign": sign, "above": level}, why if first is None else first


def _series(looks: Sequence[_Look], axes: Mapping[str, Axis], recorder: Recorder) -> None:
    columns: dict[str, Sequence[float]] = {"event": [look.event for look in looks]}
    for name in ("allocated_bytes", "reserved_bytes", "inactive_split_bytes", "retries"):
        values = [getattr(look.stats, name) for look in looks]
        if None not in values:
            columns[name] = values
    recorder.series(metrics.TOWARDS_OOM, axes, **columns)
