"""Diagnostic rules as predictors: runs of workload x setting x capacity, and how signs score.

A sign is a figure of a run that was read at least 100 events before its failed allocation (in a
completed run before its last one), and a threshold that it must exceed. Runs that fail before
their hundredth event count as missed, whatever the sign: nobody could have acted on anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.claims.case import Case, MissingFigureError, Row
from allocmark.claims.claim import Ruling
from allocmark.claims.functions import FUNCTIONS
from allocmark.claims.text import Text
from allocmark.schema.metrics.pressure import LEAD_EVENTS

PROBE = "pressure"
CACHE_SHARE = 0.3
"""The share of the cache from which the source document speaks of serious fragmentation."""
CANDIDATES = {
    "retries_before": Text("num_alloc_retries", "num_alloc_retries"),
    "cache_share_max_before": Text("cache share, largest seen", "缓存占比（曾达最大）"),
    "cache_share_last_before": Text("cache share, last reading", "缓存占比（最后读数）"),
    "reserved_share_last_before": Text(
        "reserved over capacity, last reading", "保留量与容量之比（最后读数）"
    ),
    "unreturnable_share_max_before": Text(
        "what cannot be given back (live blocks, and free ones beside them) over capacity, "
        "largest seen",
        "无法归还的量（活动块及其同段空闲）与容量之比（曾达最大）",
    ),
}
"""Signs that a better rule is chosen from, in words."""
_GUESSING = 1.5
"""A sign whose precision is below this many times the base rate hardly beats guessing."""
_GOOD_PRECISION = 0.75
_GOOD_RECALL = 0.5
_PLACE = ("subject", "workload", "capacity_ratio")
_STEPS = 20


_FIRST_ABOVE = "first_above_event"
_SIGN_OF = {
    "cache_share_max_before": "cache_share",
    "unreturnable_share_max_before": "unreturnable_share",
}
"""Signs of which it is recorded when they first exceeded some levels, as that record calls them."""


@dataclass(frozen=True, slots=True)
class Sign:
    """A figure of a run and what it must exceed."""

    metric: str
    above: float

    def firsts(self, case: Case) -> list[Row]:
        """Return the event at which each run first showed it, as far as that is recorded."""
        if self.metric == "retries_before" and self.above == 0:
            return case.rows(PROBE, "first_retry_event")
        if self.metric in _SIGN_OF:
            sign = _SIGN_OF[self.metric]
            return case.rows(PROBE, _FIRST_ABOVE, sign=sign, above=self.above)
        return []


def ruling(precision: float, recall: float, base: float) -> Ruling:
    """Return whether a sign with these shares announces failed allocations."""
    if precision >= _GOOD_PRECISION and recall >= _GOOD_RECALL:
        return Ruling.HOLDS
    return Ruling.IN_PART if beats_guessing(precision, base) else Ruling.FAILS


def beats_guessing(precision: float, base: float) -> bool:
    """Whether a precision is clearly above the share of failures among all runs."""
    return precision >= _GUESSING * base


RULE_30 = Sign("cache_share_max_before", CACHE_SHARE)
RULE_30_LAST = Sign("cache_share_last_before", CACHE_SHARE)
RULE_RETRIES = Sign("retries_before", 0)


def completed(case: Case) -> list[Row]:
    """Return the runs, 1 where one completed. Raises `MissingFigureError` without any."""
    return case.some(PROBE, "completed")


def by_place(case: Case, metric: str) -> dict[tuple[Any, ...], Row]:
    """Return a figure of each run by setting, workload and capacity."""
    return {place(row): row for row in case.rows(PROBE, metric)}


def place(row: Row) -> tuple[Any, ...]:
    """Return which run a row is about."""
    return tuple(row[name] for name in _PLACE)


def readings(case: Case, metric: str) -> dict[tuple[Any, ...], Row]:
    """Return what each run showed of a sign's figure, by setting, workload and capacity.

    A run that failed before it could be read has its own 0 (not completed) instead, which exceeds
    nothing: the failure was missed. Settings that never tell the figure have no run here.
    """
    told = by_place(case, metric)
    settings = {where[0] for where in told}
    fails = by_place(case, "failed_event")
    for run in completed(case):
        where = place(run)
        early = where in fails and fails[where].value < LEAD_EVENTS
        if run.value == 0 and early and where[0] in settings:
            told.setdefault(where, run)
    return told


def with_sign(case: Case, sign: Sign, keep: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Return the runs that have the sign's figure, as completed, sign, completed, sign.

    Those that failed before it could be read are among them, see `readings`.
    """
    told = readings(case, sign.metric)
    rows: list[Row] = []
    for run in completed(case):
        if keep(run) and (shown := told.get(place(run))) is not None:
            rows += [run, shown]
    if not rows:
        raise case.missing(PROBE, sign.metric)
    return rows


def score(case: Case, name: str, sign: Sign, rows: Sequence[Row]) -> tuple[float, float]:
    """Take precision and recall of a sign as evidence ``<name>_precision`` and ``_recall``.

    Without a run that shows the sign there is no precision: it counts as 0 and is no evidence.
    """
    given = (sign.above,)
    precision = 0.0
    if FUNCTIONS["runs with the sign"]([row.value for row in rows], *given):
        precision = case.work_out(
            f"{name}_precision",
            Text("failures among the runs that showed it", "出现该迹象的运行中失败的比例"),
            "precision of the sign",
            rows,
            "share",
            given,
        )
    recall = case.work_out(
        f"{name}_recall",
        Text("failures that it announced", "该迹象提前预示的失败比例"),
        "recall of the sign",
        rows,
        "share",
        given,
    )
    case.work_out(
        f"{name}_shown",
        Text("runs that showed it", "出现该迹象的运行数"),
        "runs with the sign",
        rows,
        "runs",
        given,
    )
    return precision, recall


def base_rate(case: Case, name: str, rows: Sequence[Row]) -> float:
    """Take the share of failed runs among `rows` (completed, sign, …) as evidence."""
    return case.work_out(
        name,
        Text("failures among all runs", "所有运行中失败的比例"),
        "share of zeros",
        rows[::2],
        "share",
    )


def lead(case: Case, name: str, sign: Sign, rows: Sequence[Row]) -> bool:
    """Take by how many events a sign came before the failures it announced, if that was read."""
    firsts = {place(row): row for row in sign.firsts(case)}
    fails = by_place(case, "failed_event")
    found: list[Row] = []
    for run, shown in zip(rows[::2], rows[1::2], strict=True):
        where = place(run)
        if run.value == 0 and shown.value > sign.above and where in firsts and where in fails:
            found += [fails[where], firsts[where]]
    if not found:
        return False
    case.work_out(
        name,
        Text(
            "events from the first sign to the failure (median)",
            "从首次出现到失败的事件数（中位数）",
        ),
        "median of first less second",
        found,
        "events",
    )
    return True


def halves(rows: Sequence[Row]) -> tuple[set[str], set[str]]:
    """Return the workloads to tune on and those to score on: every second one by name."""
    names = sorted({str(row["workload"]) for row in rows})
    return set(names[::2]), set(names[1::2])


def tuned(case: Case) -> Sign:
    """Return the sign that does best on the workloads to tune on, by the mean of precision and
    recall that favours neither (F1). Raises `MissingFigureError` where nothing failed on them."""
    train, _ = halves(completed(case))
    best: tuple[float, Sign] | None = None
    for metric in CANDIDATES:
        try:
            rows = with_sign(case, Sign(metric, 0), lambda row: str(row["workload"]) in train)
        except MissingFigureError:
            continue
        values = [row.value for row in rows]
        for above in _levels(case, metric) or _thresholds(values[1::2]):
            f1 = FUNCTIONS["F1 of the sign"](values, above)
            if best is None or f1 > best[0]:
                best = (f1, Sign(metric, above))
    if best is None or best[0] <= 0:
        raise MissingFigureError(Text("no failure to tune a rule on", "没有可用于调规则的失败"))
    return best[1]


def _levels(case: Case, metric: str) -> list[float]:
    """Return the levels of which it is recorded when the sign exceeded them."""
    if metric not in _SIGN_OF:
        return []
    recorded = case.rows(PROBE, _FIRST_ABOVE, sign=_SIGN_OF[metric])
    return sorted({float(row["above"]) for row in recorded})


def _thresholds(values: Sequence[float]) -> list[float]:
    """Return values to try: some of those that occur, rounded, so that they can be told."""
    ordered = sorted({round(value, 2) for value in values})
    step = max(1, len(ordered) // _STEPS)
    return ordered[::step]
