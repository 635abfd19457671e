"""Diagnostic rules as predictors: runs of workload x setting x capacity, and how indicators score.

An indicator is a figure of a run that was read at least 100 events before its failed allocation (in
a completed run before its last one), and a threshold that it must exceed. Runs that fail before
their hundredth event count as missed, whatever the indicator: nobody could have acted on anything.

Scored are the capacities of each workload in which some settings completed and others failed: where
all fail, or none does, no indicator can tell runs apart, and how many such steps there are is the
grid's choice. Every workload weighs the same, and every score has its interval over workloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.claims.core.claim import Ruling
from allocmark.claims.core.derivations import Pairs, median
from allocmark.claims.core.evidence_collector import (
    EvidenceCollector,
    MissingFigureError,
    Row,
    Where,
)
from allocmark.claims.core.over_workloads import Spread
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message, Text

CACHE_SHARE = 0.3
"""The share of the cache from which the source document speaks of serious fragmentation."""
CANDIDATES = {
    pressure.RETRIES_BEFORE: Message("num_alloc_retries"),
    pressure.RESERVED_CACHE_SHARE_MAX_BEFORE: Message(
        "cache share, largest seen with a quarter of the capacity reserved"
    ),
    pressure.CACHE_SHARE_LAST_BEFORE: Message("cache share, last reading"),
    pressure.RESERVED_SHARE_LAST_BEFORE: Message("reserved over capacity, last reading"),
    pressure.UNRETURNABLE_SHARE_MAX_BEFORE: Message(
        "allocated and inactive split bytes over capacity, largest seen"
    ),
}
"""What a better rule is chosen from, in words."""
_GUESSING = 1.5
"""A precision below this many times the base rate hardly beats guessing."""
_GOOD_PRECISION = 0.75
_GOOD_RECALL = 0.5
_STEPS = 20
_LEVELS_OF = {
    pressure.RESERVED_CACHE_SHARE_MAX_BEFORE: pressure.RESERVED_CACHE_SHARE,
    pressure.UNRETURNABLE_SHARE_MAX_BEFORE: pressure.UNRETURNABLE_SHARE,
}
"""Figures of which it is recorded when they first exceeded some levels, by that record's names."""

RunKey = tuple[Any, ...]
"""Setting, workload and capacity of a run."""
Runs = Sequence[tuple[Row, Row]]
"""Runs: whether each completed (1 or 0), and what it showed of an indicator."""
Sample = Sequence[Pairs]
"""The same by workload, as plain numbers or as rows."""


@dataclass(frozen=True, slots=True)
class Indicator:
    """A figure of a run and what it must exceed."""

    metric: Metric
    above: float

    def firsts(self, evidence: EvidenceCollector) -> list[Row]:
        """Return the event at which each run first showed it, as far as that is recorded."""
        if self.metric == pressure.RETRIES_BEFORE and self.above == 0:
            return evidence.rows(pressure.FIRST_RETRY_EVENT)
        if self.metric in _LEVELS_OF:
            level: dict[str, Where] = {"sign": _LEVELS_OF[self.metric], "above": self.above}
            return evidence.rows(pressure.FIRST_ABOVE_EVENT, **level)
        return []


RULE_30 = Indicator(pressure.RESERVED_CACHE_SHARE_MAX_BEFORE, CACHE_SHARE)
RULE_30_LAST = Indicator(pressure.CACHE_SHARE_LAST_BEFORE, CACHE_SHARE)
RULE_RETRIES = Indicator(pressure.RETRIES_BEFORE, 0)


def _shares(sample: Sample, above: float) -> tuple[float, float, float, float]:
    """Return hits, false alarms, misses and failures of an indicator, as shares of each workload's
    runs, added up."""
    hits = alarms = misses = failed = 0.0
    for runs in sample:
        one = 1 / len(runs)
        for completed, shown in runs:
            hits += one * (completed == 0 and shown > above)
            alarms += one * (completed != 0 and shown > above)
            misses += one * (completed == 0 and shown <= above)
            failed += one * (completed == 0)
    return hits, alarms, misses, failed


def precision(sample: Sample, above: float) -> float:
    """Return the share of failures among the runs that showed it."""
    hits, alarms, _, _ = _shares(sample, above)
    return hits / (hits + alarms)


def recall(sample: Sample, above: float) -> float:
    """Return the share of failures before which it was seen."""
    hits, _, misses, _ = _shares(sample, above)
    return hits / (hits + misses)


def failed_share(sample: Sample) -> float:
    """Return the share of failures among all runs, the base rate."""
    return _shares(sample, 0)[3] / len(sample)


def lift(sample: Sample, above: float) -> float:
    """Return precision over base rate: 1 is guessing."""
    return precision(sample, above) / failed_share(sample)


def f1(sample: Sample, above: float) -> float:
    """Return the harmonic mean of precision and recall."""
    hits, alarms, misses, _ = _shares(sample, above)
    return 2 * hits / (2 * hits + alarms + misses) if hits else 0.0


def shown_by(runs: Pairs, above: float) -> float:
    """Return how many runs showed it."""
    return float(sum(shown > above for _, shown in runs))


def ruling(precision: Spread | None, recall: Spread, lift: Spread | None) -> Ruling:
    """Return whether an indicator with these scores predicts failed allocations.

    It holds with a good precision and recall, does not hold where its precision is surely below
    `_GUESSING` times the base rate, and holds in part where it is surely above that and surely not
    good. One that no run showed predicts nothing.
    """
    if precision is None or lift is None:
        return Ruling.FAILS
    good = {precision.at_least(_GOOD_PRECISION), recall.at_least(_GOOD_RECALL)}
    if good == {Ruling.HOLDS}:
        return Ruling.HOLDS
    beats = lift.at_least(_GUESSING)
    if beats is Ruling.HOLDS and Ruling.FAILS in good:
        return Ruling.IN_PART
    return Ruling.FAILS if beats is Ruling.FAILS else Ruling.UNDECIDED


def completed(evidence: EvidenceCollector) -> list[Row]:
    """Return the runs, 1 where one completed. Raises `MissingFigureError` without any."""
    return evidence.required_rows(pressure.COMPLETED)


def contested(evidence: EvidenceCollector) -> list[Row]:
    """Return the runs in capacities of a workload in which some settings completed and others
    failed. Raises `MissingFigureError` where there is none."""
    runs = completed(evidence)
    outcomes: dict[tuple[Any, ...], set[bool]] = {}
    for row in runs:
        outcomes.setdefault(run_key(row)[1:], set()).add(row > 0)
    found = [row for row in runs if len(outcomes[run_key(row)[1:]]) > 1]
    if not found:
        raise MissingFigureError(
            Message("no capacity in which one setting completes a workload and another fails")
        )
    return found


def failures(evidence: EvidenceCollector) -> dict[RunKey, Row]:
    """Return the failed runs."""
    return {run_key(row): row for row in completed(evidence) if row == 0.0}


def by_run(evidence: EvidenceCollector, metric: Metric) -> dict[RunKey, Row]:
    """Return a figure of each run."""
    return {run_key(row): row for row in evidence.rows(metric)}


def run_key(row: Row) -> RunKey:
    """Return which run a row is about."""
    return (row["subject"], row["workload"], row["capacity_ratio"])


def readings(evidence: EvidenceCollector, metric: Metric) -> dict[RunKey, Row]:
    """Return what each run showed of an indicator's figure.

    A run that failed before it could be read has its own 0 (not completed) instead, which exceeds
    nothing: the failure was missed. Settings that never give the figure have no run here.
    """
    found = by_run(evidence, metric)
    settings = {key[0] for key in found}
    failed_events = by_run(evidence, pressure.FAILED_EVENT)
    for key, run in failures(evidence).items():
        early = key in failed_events and failed_events[key] < pressure.LEAD_EVENTS
        if early and key[0] in settings:
            found.setdefault(key, run)
    return found


def runs_with(
    evidence: EvidenceCollector,
    indicator: Indicator,
    keep: Callable[[Row], bool] = lambda row: True,
) -> Runs:
    """Return the contested runs that have the indicator's figure, at least one.

    Those that failed before it could be read are among them, see `readings`.
    """
    shown = readings(evidence, indicator.metric)
    runs = [
        (run, shown[key])
        for run in contested(evidence)
        if keep(run) and (key := run_key(run)) in shown
    ]
    if not runs:
        raise evidence.missing(indicator.metric)
    return runs


def sampled(runs: Runs) -> list[list[tuple[Row, Row]]]:
    """Return runs by workload."""
    found: dict[str, list[tuple[Row, Row]]] = {}
    for pair in runs:
        found.setdefault(str(pair[0]["workload"]), []).append(pair)
    return list(found.values())


def score(evidence: EvidenceCollector, name: str, indicator: Indicator, runs: Runs) -> Ruling:
    """Judge an indicator by runs, with ``<name>_precision``, ``_recall``, ``_lift`` and ``_shown``
    as evidence.

    Without a run that shows the indicator there is neither precision nor lift.
    """
    above, sample = indicator.above, sampled(runs)
    what = Message("runs with the indicator")
    shown = evidence.derive(f"{name}_shown", what, lambda runs: shown_by(runs, above), runs, "runs")
    precise = times = None
    if shown:
        what = Message("precision: failures among the runs with the indicator")
        precise = evidence.derive_over(
            f"{name}_precision", what, lambda sample: precision(sample, above), sample, "share"
        )
        what = Message("precision over base rate")
        times = evidence.derive_over(
            f"{name}_lift", what, lambda sample: lift(sample, above), sample
        )
    what = Message("recall: failures that the indicator preceded")
    recalled = evidence.derive_over(
        f"{name}_recall", what, lambda sample: recall(sample, above), sample, "share"
    )
    return ruling(precise, recalled, times)


def base_rate(evidence: EvidenceCollector, runs: Runs) -> Spread:
    """Take the share of failed runs as evidence ``base``."""
    what = Message("base rate: failures among all runs")
    return evidence.derive_over("base", what, failed_share, sampled(runs), "share")


def lead(evidence: EvidenceCollector, indicator: Indicator, runs: Runs) -> bool:
    """Take as evidence ``lead`` by how many events an indicator came before the failures that it
    preceded, if that was read."""
    firsts = {run_key(row): row for row in indicator.firsts(evidence)}
    failed_events = by_run(evidence, pressure.FAILED_EVENT)
    preceded = [
        (failed_events[key], firsts[key])
        for run, shown in runs
        for key in [run_key(run)]
        if run == 0.0 and shown > indicator.above and key in firsts and key in failed_events
    ]
    if not preceded:
        return False
    evidence.derive(
        "lead",
        Message("lead: events from the first reading with the indicator to the failure (median)"),
        lambda pairs: median([failed - first for failed, first in pairs]),
        preceded,
        "events",
    )
    return True


def predict(evidence: EvidenceCollector, indicator: Indicator) -> tuple[Ruling, Text]:
    """Judge a rule as a predictor, by the scores that it takes as evidence ``rule_*``.

    Return the ruling and the sentence on the scores.
    """
    runs = runs_with(evidence, indicator)
    base_rate(evidence, runs)
    found = score(evidence, "rule", indicator, runs)
    evidence.count("runs", Message("runs"), [run for run, _ in runs], "runs")
    evidence.count("workloads", Message("workloads"), [own[0][0] for own in sampled(runs)])
    if not evidence.has("rule_precision"):
        return found, Message(
            "Of {runs} runs of {workloads} workloads, in capacities in which settings differ, none "
            "had the indicator; {base} failed."
        )
    if not lead(evidence, indicator, runs):
        return found, Message(
            "Of {runs} runs of {workloads} workloads, in capacities in which settings differ, "
            "{rule_shown} had the indicator: precision {rule_precision}, base rate {base}, recall "
            "{rule_recall}."
        )
    return found, Message(
        "Of {runs} runs of {workloads} workloads, in capacities in which settings differ, "
        "{rule_shown} had the indicator: precision {rule_precision}, base rate {base}, recall "
        "{rule_recall}, lead {lead} events (median)."
    )


def halves(runs: Sequence[Row]) -> tuple[set[str], set[str]]:
    """Return the workloads to tune on and those to score on: every second one by name."""
    names = sorted({str(row["workload"]) for row in runs})
    return set(names[::2]), set(names[1::2])


def tuned(evidence: EvidenceCollector) -> Indicator:
    """Return the indicator that does best on the workloads to tune on, by the mean of precision and
    recall that favours neither (F1). Raises `MissingFigureError` where nothing failed on them."""
    train, _ = halves(contested(evidence))
    best, chosen = 0.0, None
    for metric in CANDIDATES:
        try:
            runs = runs_with(evidence, Indicator(metric, 0), lambda row: row["workload"] in train)
        except MissingFigureError:
            continue
        for above in _levels(evidence, metric) or _thresholds([shown for _, shown in runs]):
            if (reached := f1(sampled(runs), above)) > best:
                best, chosen = reached, Indicator(metric, above)
    if chosen is None:
        raise MissingFigureError(Message("no failure to tune a rule on"))
    return chosen


def _levels(evidence: EvidenceCollector, metric: Metric) -> list[float]:
    """Return the levels of which it is recorded when the figure exceeded them."""
    if metric not in _LEVELS_OF:
        return []
    recorded = evidence.rows(pressure.FIRST_ABOVE_EVENT, sign=_LEVELS_OF[metric])
    return sorted({float(row["above"]) for row in recorded})


def _thresholds(values: Sequence[float]) -> list[float]:
    """Return values to try: some of those that occur, rounded, so that they can be stated."""
    ordered = sorted({round(value, 2) for value in values})
    step = max(1, len(ordered) // _STEPS)
    return ordered[::step]
