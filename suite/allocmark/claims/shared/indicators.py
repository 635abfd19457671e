"""Diagnostic rules as predictors: runs of workload x setting x capacity, and how indicators score.

An indicator is a figure of a run that was read at least 100 events before its failed allocation (in
a completed run before its last one), and a threshold that it must exceed. Runs that fail before
their hundredth event count as missed, whatever the indicator: nobody could have acted on anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.claims.core.claim import Ruling
from allocmark.claims.core.derivations import Pairs, median, share_of_zeros
from allocmark.claims.core.evidence_collector import (
    EvidenceCollector,
    MissingFigureError,
    Row,
    Where,
)
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message, Text

CACHE_SHARE = 0.3
"""The share of the cache from which the source document speaks of serious fragmentation."""
CANDIDATES = {
    pressure.RETRIES_BEFORE: Message("num_alloc_retries"),
    pressure.CACHE_SHARE_MAX_BEFORE: Message("cache share, largest seen"),
    pressure.CACHE_SHARE_LAST_BEFORE: Message("cache share, last reading"),
    pressure.RESERVED_SHARE_LAST_BEFORE: Message("reserved over capacity, last reading"),
    pressure.UNRETURNABLE_SHARE_MAX_BEFORE: Message(
        "what cannot be given back (live blocks, and free ones beside them) over capacity, "
        "largest seen"
    ),
}
"""What a better rule is chosen from, in words."""
_GUESSING = 1.5
"""A precision below this many times the base rate hardly beats guessing."""
_GOOD_PRECISION = 0.75
_GOOD_RECALL = 0.5
_STEPS = 20
_LEVELS_OF = {
    pressure.CACHE_SHARE_MAX_BEFORE: pressure.CACHE_SHARE,
    pressure.UNRETURNABLE_SHARE_MAX_BEFORE: pressure.UNRETURNABLE_SHARE,
}
"""Figures of which it is recorded when they first exceeded some levels, by that record's names."""

RunKey = tuple[Any, ...]
"""Setting, workload and capacity of a run."""
Runs = Sequence[tuple[Row, Row]]
"""Runs: whether each completed (1 or 0), and what it showed of an indicator."""


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


RULE_30 = Indicator(pressure.CACHE_SHARE_MAX_BEFORE, CACHE_SHARE)
RULE_30_LAST = Indicator(pressure.CACHE_SHARE_LAST_BEFORE, CACHE_SHARE)
RULE_RETRIES = Indicator(pressure.RETRIES_BEFORE, 0)


def _outcomes(runs: Pairs, above: float) -> tuple[int, int, int]:
    """Return hits, false alarms and misses of an indicator."""
    hits = sum(completed == 0 and shown > above for completed, shown in runs)
    alarms = sum(completed != 0 and shown > above for completed, shown in runs)
    misses = sum(completed == 0 and shown <= above for completed, shown in runs)
    return hits, alarms, misses


def precision(runs: Pairs, above: float) -> float:
    """Return the share of failures among the runs that showed it."""
    hits, alarms, _ = _outcomes(runs, above)
    return hits / (hits + alarms)


def recall(runs: Pairs, above: float) -> float:
    """Return the share of failures that it announced."""
    hits, _, misses = _outcomes(runs, above)
    return hits / (hits + misses)


def f1(runs: Pairs, above: float) -> float:
    """Return the harmonic mean of precision and recall."""
    hits, alarms, misses = _outcomes(runs, above)
    return 2 * hits / (2 * hits + alarms + misses) if hits else 0.0


def shown_by(runs: Pairs, above: float) -> float:
    """Return how many runs showed it."""
    hits, alarms, _ = _outcomes(runs, above)
    return float(hits + alarms)


def ruling(precision: float, recall: float, base: float) -> Ruling:
    """Return whether an indicator with these shares announces failed allocations."""
    good = precision >= _GOOD_PRECISION and recall >= _GOOD_RECALL
    return Ruling.of(good, in_part=beats_guessing(precision, base))


def beats_guessing(precision: float, base: float) -> bool:
    """Whether a precision is clearly above the share of failures among all runs."""
    return precision >= _GUESSING * base


def completed(evidence: EvidenceCollector) -> list[Row]:
    """Return the runs, 1 where one completed. Raises `MissingFigureError` without any."""
    return evidence.required_rows(pressure.COMPLETED)


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
    """Return the runs that have the indicator's figure, at least one.

    Those that failed before it could be read are among them, see `readings`.
    """
    shown = readings(evidence, indicator.metric)
    runs = [
        (run, shown[key])
        for run in completed(evidence)
        if keep(run) and (key := run_key(run)) in shown
    ]
    if not runs:
        raise evidence.missing(indicator.metric)
    return runs


def score(
    evidence: EvidenceCollector, name: str, indicator: Indicator, runs: Runs
) -> tuple[float, float]:
    """Take precision and recall as evidence ``<name>_precision`` and ``<name>_recall``.

    Without a run that shows the indicator there is no precision: it counts as 0 and is no evidence.
    """
    above = indicator.above
    precise = 0.0
    if shown_by(runs, above):
        what = Message("failures among the runs that showed it")
        precise = evidence.derive(
            f"{name}_precision", what, lambda runs: precision(runs, above), runs, "share"
        )
    what = Message("failures that it announced")
    recalled = evidence.derive(
        f"{name}_recall", what, lambda runs: recall(runs, above), runs, "share"
    )
    what = Message("runs that showed it")
    evidence.derive(f"{name}_shown", what, lambda runs: shown_by(runs, above), runs, "runs")
    return precise, recalled


def base_rate(evidence: EvidenceCollector, runs: Runs) -> float:
    """Take the share of failed runs as evidence ``base``."""
    outcomes = [run for run, _ in runs]
    return evidence.derive(
        "base", Message("failures among all runs"), share_of_zeros, outcomes, "share"
    )


def lead(evidence: EvidenceCollector, indicator: Indicator, runs: Runs) -> bool:
    """Take as evidence ``lead`` by how many events an indicator came before the failures that it
    announced, if that was read."""
    firsts = {run_key(row): row for row in indicator.firsts(evidence)}
    failed_events = by_run(evidence, pressure.FAILED_EVENT)
    announced = [
        (failed_events[key], firsts[key])
        for run, shown in runs
        for key in [run_key(run)]
        if run == 0.0 and shown > indicator.above and key in firsts and key in failed_events
    ]
    if not announced:
        return False
    evidence.derive(
        "lead",
        Message("events from the first sign to the failure (median)"),
        lambda pairs: median([failed - first for failed, first in pairs]),
        announced,
        "events",
    )
    return True


def predict(evidence: EvidenceCollector, indicator: Indicator) -> tuple[Ruling, Text]:
    """Judge a rule as a predictor by its ``rule_precision`` and ``rule_recall``.

    Return the ruling, and the sentence on how long before the failure it comes, if that was read.
    """
    runs = runs_with(evidence, indicator)
    base = base_rate(evidence, runs)
    precise, recalled = score(evidence, "rule", indicator, runs)
    evidence.count("runs", Message("runs"), [run for run, _ in runs], "runs")
    comes: Text = ""
    if lead(evidence, indicator, runs):
        comes = Message("It comes {lead} events before the failure (median).")
    return ruling(precise, recalled, base), comes


def halves(runs: Sequence[Row]) -> tuple[set[str], set[str]]:
    """Return the workloads to tune on and those to score on: every second one by name."""
    names = sorted({str(row["workload"]) for row in runs})
    return set(names[::2]), set(names[1::2])


def tuned(evidence: EvidenceCollector) -> Indicator:
    """Return the indicator that does best on the workloads to tune on, by the mean of precision and
    recall that favours neither (F1). Raises `MissingFigureError` where nothing failed on them."""
    train, _ = halves(completed(evidence))
    best, chosen = 0.0, None
    for metric in CANDIDATES:
        try:
            runs = runs_with(evidence, Indicator(metric, 0), lambda row: row["workload"] in train)
        except MissingFigureError:
            continue
        for above in _levels(evidence, metric) or _thresholds([shown for _, shown in runs]):
            if (reached := f1(runs, above)) > best:
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
