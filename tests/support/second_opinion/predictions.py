"""The rules as predictors of failed allocations, by hand: each workload weighs the same."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.support.second_opinion.raw_record import Record
from tests.support.second_opinion.worked_out import NATIVE, Drawn, Numbers, runs

Run = tuple[str, str, float]
_EARLY = 100
"""Events: a run that fails before has shown nothing that anybody could have acted on."""
_DRAWS = 2000


def interval(
    own: Sequence[Sequence[tuple[float, ...]]],
    of: Callable[[Sequence[Sequence[tuple[float, ...]]]], float],
) -> tuple[float, Drawn, Drawn]:
    """Return a figure of workloads, and both ends of 95 % of draws with replacement."""
    draw, found = random.Random(7), []
    for _ in range(_DRAWS):
        try:
            found.append(of([draw.choice(own) for _ in own]))
        except ZeroDivisionError:
            continue
    found.sort()
    low, high = found[int(0.025 * len(found))], found[int(0.975 * len(found))]
    tolerance = max(0.1 * (high - low), 0.02)
    return of(own), Drawn(low, tolerance), Drawn(high, tolerance)


def by_workload(found: Mapping[Run, tuple[float, ...]]) -> list[list[tuple[float, ...]]]:
    kept: dict[str, list[tuple[float, ...]]] = {}
    for run, values in found.items():
        kept.setdefault(run[1], []).append(values)
    return list(kept.values())


def contested(record: Record) -> dict[Run, float]:
    """Return the runs in capacities in which settings end differently."""
    completed = runs(record, "completed")
    ends: dict[tuple[str, float], set[float]] = {}
    for run, done in completed.items():
        ends.setdefault(run[1:], set()).add(done)
    return {run: done for run, done in completed.items() if len(ends[run[1:]]) == 2}


def read(record: Record, metric: str) -> dict[Run, float]:
    """Return what each run showed; 0 where it failed before that could be read."""
    found, failed = runs(record, metric), runs(record, "failed_event")
    settings = {run[0] for run in found}
    for run, event in failed.items():
        if event < _EARLY and run[0] in settings:
            found.setdefault(run, 0.0)
    return found


def scores(record: Record, metric: str, above: float, first: dict[Run, float]) -> Numbers:
    """Return runs, workloads, runs with the indicator, precision, base rate, recall and lead."""
    shown = read(record, metric)
    own = {run: (done, shown[run]) for run, done in contested(record).items() if run in shown}
    sample = by_workload(own)
    failed = runs(record, "failed_event")
    leads = [
        failed[run] - first[run]
        for run, (done, sign) in own.items()
        if done == 0 and sign > above and run in first
    ]
    return [
        *(len(own), len(sample), sum(sign > above for _, sign in own.values())),
        *interval(sample, lambda some: _share(some, above, given="shown")),
        *interval(sample, _base),
        *interval(sample, lambda some: _share(some, above, given="failed")),
        statistics.median(leads),
    ]


def _share(sample: Sequence[Sequence[tuple[float, ...]]], above: float, given: str) -> float:
    both = base = 0.0
    for own in sample:
        for done, sign in own:
            is_in = sign > above if given == "shown" else done == 0
            base += is_in / len(own)
            both += (done == 0 and sign > above) / len(own)
    return both / base


def _base(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
    return statistics.mean(sum(done == 0 for done, _ in own) / len(own) for own in sample)


def _first_above(record: Record, sign: str, above: float) -> dict[Run, float]:
    return {
        (one.subject, one.axes["workload"], one.axes["capacity_ratio"]): one.value
        for one in record.all("pressure", "first_above_event", sign=sign, above=above)
    }


_SHARE_BEFORE = "reserved_cache_share_max_before"


def rule_30(record: Record) -> Numbers:
    split = by_workload(
        {run: (share,) for run, share in runs(record, "split_share_of_cache", NATIVE).items()}
    )

    def middle(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
        return statistics.median(statistics.median(share for (share,) in own) for own in sample)

    first = _first_above(record, "reserved_cache_share", 0.3)
    return [
        *(0.3, *interval(split, middle), len(split)),
        *scores(record, _SHARE_BEFORE, 0.3, first),
    ]


def rule_retries(record: Record) -> Numbers:
    shown = read(record, "retries_before")
    ended = {run: done for run, done in contested(record).items() if run in shown}
    pairs: dict[str, list[tuple[float, ...]]] = {}
    for failed in (run for run, done in ended.items() if done == 0):
        for completed in (run for run, done in ended.items() if done == 1):
            if failed[1:] == completed[1:]:
                pairs.setdefault(failed[1], []).append((shown[failed], shown[completed]))

    def more(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
        return statistics.mean(
            statistics.mean((a > b) + 0.5 * (a == b) for a, b in own) for own in sample
        )

    first = runs(record, "first_retry_event")
    found = interval(list(pairs.values()), more)
    return [*scores(record, "retries_before", 0, first), *found, 0.5]


def most_failures(record: Record) -> Numbers:
    failed = [run for run, done in contested(record).items() if done == 0]
    cached, free, asked = (
        runs(record, f"failed_{what}_bytes") for what in ("cached", "device_free", "request")
    )
    told = {r: (cached[r], free[r], asked[r]) for r in failed if r in cached and r in asked}
    enough = interval(by_workload(told), _enough)
    shares, retries = read(record, _SHARE_BEFORE), read(record, "retries_before")
    signs = {r: (shares[r], retries[r]) for r in failed if r in shares and r in retries}
    preceded = interval(by_workload(signs), _either)
    of_30 = scores(record, _SHARE_BEFORE, 0.3, _first_above(record, "reserved_cache_share", 0.3))
    of_retries = scores(record, "retries_before", 0, runs(record, "first_retry_event"))
    recalls = (*of_30[9:12], *of_retries[9:12])
    return [len(told), *enough, 0.3, *preceded, *recalls, *of_retries[6:9]]


def _enough(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
    return statistics.mean(
        statistics.mean(float(cached + free >= asked) for cached, free, asked in own)
        for own in sample
    )


def _either(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
    return statistics.mean(
        statistics.mean(float(share > 0.3 or retries > 0) for share, retries in own)
        for own in sample
    )


def not_size(record: Record) -> Numbers:
    completed = runs(record, "completed")
    possible = {run[2] for run, done in completed.items() if done == 1}
    best: dict[Run, tuple[float, ...]] = {}
    for run, done in completed.items():
        others = [d for r, d in completed.items() if r[1:] == run[1:] and r[0] != NATIVE]
        if run[0] == NATIVE and done == 0 and run[2] in possible and others:
            best[run] = (max(others),)
    sample = by_workload(best)

    def avoided(some: Sequence[Sequence[tuple[float, ...]]]) -> float:
        return statistics.mean(statistics.mean(done for (done,) in own) for own in some)

    return [len(best), len(sample), *interval(sample, avoided)]
