"""From two sides to verdicts.

Exact figures are compared by equality. The others are worse or better where three things hold: the
difference is at least the smallest that matters, it is beyond what runs of such figures differ by
(`noise`, corrected for the number of figures after Benjamini and Hochberg), and the readings
themselves are apart (`guard`).
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import scipy
from numpy.typing import NDArray

from allocmark.compare import environment, guard, means, noise
from allocmark.compare.model import Comparison, Missing, Row, SideFacts, Verdict
from allocmark.compare.pairing import Couple, Run, Single, couples
from allocmark.compare.readings import (
    as_read,
    direction,
    has_zero,
    is_exact,
    logarithms,
    values,
    within,
)
from allocmark.compare.sides import Pair, Side, paired, read_side
from allocmark.compare.thresholds import Rule, Thresholds, load
from allocmark.errors import AllocmarkError
from allocmark.figures import Figure
from allocmark.units import MIB

LEVEL = 0.05
"""The share of false alarms among what is called changed."""
GRAIN_BYTES = 2 * MIB
"""The pages of the GPU: readings of its memory closer than that are alike."""
TOO_WIDE = 6.0
"""An interval wider than this many smallest differences that matter tells nothing: unclear."""
SETTLES = 0.5
"""A difference of more than this part of its interval's half may be settled by a few more runs."""
FEWEST_RUNS = 3
"""Runs a side that must agree among themselves before a figure that was 0 counts as changed."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is said of one couple; the fields are those of `model.Row`."""

    verdict: Verdict
    note: str
    low: float | None = None
    high: float | None = None
    q: float | None = None
    open: bool = False


def compare(
    a: str, b: str, results: Path = Path("results"), thresholds: Path | None = None
) -> Comparison:
    """Compare two stacks, result files or folders, as `sides.read_side` takes them.

    Raises `AllocmarkError` where one is empty or they share no figure.
    """
    with no_garbage():
        pair = paired(read_side(a, results), read_side(b, results))
        return compare_pair(pair, load(thresholds))


@contextmanager
def no_garbage() -> Iterator[None]:
    """Keep the collector from walking a million readings again and again: none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def compare_pair(pair: Pair, thresholds: Thresholds) -> Comparison:
    """Compare two sides. Raises `AllocmarkError` where they share no figure."""
    both, single = couples(pair)
    if not both:
        raise AllocmarkError(f"the two share no figure: {_why(pair)}")
    rules = [thresholds.of(couple.place) for couple in both]
    kept = [(as_read(c, r), r) for c, r in zip(both, rules, strict=True) if not r.ignore]
    judged = judge([c for c, _ in kept], [r for _, r in kept])
    rows = tuple(_row(c, r, j) for (c, r), j in zip(kept, judged, strict=True))
    return Comparison(
        _facts(pair.a),
        _facts(pair.b),
        pair.study,
        environment.warnings(pair.a, pair.b),
        environment.changes(pair.a, pair.b),
        rows,
        tuple(_missing(single, thresholds)),
        means.judged(kept),
    )


def judge(both: Sequence[Couple], rules: Sequence[Rule]) -> list[Judged]:
    """Return what is said of each couple: the correction is for all of these figures."""
    judged: dict[int, Judged] = {}
    sampled: list[int] = []
    for index, (couple, rule) in enumerate(zip(both, rules, strict=True)):
        if is_exact(couple):
            judged[index] = _exact(couple, rule)
        elif has_zero(couple):
            judged[index] = _with_zero(couple, rule)
        else:
            sampled.append(index)
    if sampled:
        chosen = [both[i] for i in sampled], [rules[i] for i in sampled]
        judged |= dict(zip(sampled, _sampled(*chosen), strict=True))
    return [judged[index] for index in range(len(both))]


def _exact(couple: Couple, rule: Rule) -> Judged:
    a, b = set(values(couple.a)), set(values(couple.b))
    if a == b and len(a) == 1:
        return Judged("same", "equal")
    if len(a) > 1 or len(b) > 1:
        return Judged("unclear", "exact, yet it differs between runs of one side")
    return Judged(direction(b.pop() - a.pop(), rule), "not equal")


def _with_zero(couple: Couple, rule: Rule) -> Judged:
    a, b = values(couple.a), values(couple.b)
    difference = median(b) - median(a)
    if difference == 0 or (_is_bytes(couple) and abs(difference) <= GRAIN_BYTES):
        return Judged("same", "equal" if difference == 0 else "within a page of the GPU")
    steady = len(set(a)) == len(set(b)) == 1
    if steady and min(len(a), len(b)) >= FEWEST_RUNS:
        return Judged(direction(difference, rule), "the same in every run of a side")
    return Judged("unclear", "one side read 0: no ratio, and too few runs that agree", open=True)


def _sampled(both: Sequence[Couple], rules: Sequence[Rule]) -> list[Judged]:
    read = _readings(both, rules)
    found = noise.moves(read)
    q = _corrected(found.p, [rule.group for rule in rules])
    return [
        _decide(couple, rule, found, i, float(q[i]))
        for i, (couple, rule) in enumerate(zip(both, rules, strict=True))
    ]


def _corrected(p: NDArray[np.float64], groups: Sequence[str]) -> NDArray[np.float64]:
    """Return the probabilities after the correction, made for each group by itself.

    Otherwise hundreds of figures that never hold still would hide a change in the few that do.
    """
    _, number = np.unique(groups, return_inverse=True)
    q = np.empty(len(p))
    for group in range(number.max() + 1):
        chosen = number == group
        q[chosen] = scipy.stats.false_discovery_control(p[chosen])
    return q


def _decide(couple: Couple, rule: Rule, found: noise.Moves, i: int, q: float) -> Judged:
    difference = float(found.difference[i])
    low, high = (math.exp(min(float(x[i]), 50.0)) for x in (found.low, found.high))
    told = (low, high, q)
    # In logarithms, so that the verdict is the same the other way round.
    size = math.expm1(abs(difference))
    half = math.expm1(min(float(found.half[i]), 50.0))
    if set(values(couple.a)) == set(values(couple.b)):
        return Judged("same", "equal", *told)
    if _is_bytes(couple) and abs(_middle(couple.b) - _middle(couple.a)) <= GRAIN_BYTES:
        return Judged("same", "within a page of the GPU", *told)
    if size < rule.least:
        if half > TOO_WIDE * rule.least:
            return Judged("unclear", "runs of such a figure differ too much to tell", *told)
        return Judged("same", f"less than the {rule.least:.0%} that matter", *told)
    # What is called a change has an interval that says so too.
    if q > LEVEL or low <= 1 <= high:
        near = abs(difference) > SETTLES * float(found.high[i] - found.difference[i])
        return Judged("unclear", "within what runs of such figures differ by", *told, near)
    moved = 0.0 if found.by_process[i] else float(found.together[i])
    if _ranks(couple, moved) is False:
        return Judged("unclear", "the readings overlap too much", *told, True)
    if found.by_process[i]:
        note = f"all of its group moved in its process, by {math.expm1(found.together[i]):+.1%}"
    elif found.together[i]:
        note = f"beside the others of its process, which moved by {math.expm1(moved):+.1%}"
    else:
        note = "beyond what runs of such figures differ by"
    return Judged(direction(difference, rule), note, *told)


def _ranks(couple: Couple, moved: float) -> bool | None:
    """Return whether the readings are apart, what their whole process moved by taken off."""
    figures = [*couple.a.values(), *couple.b.values()]
    if not all(map(guard.is_median, figures)):
        return None
    a, b = guard.readings(couple.a.values()), guard.readings(couple.b.values())
    return guard.apart(a, b / math.exp(moved))


def _readings(both: Sequence[Couple], rules: Sequence[Rule]) -> noise.Readings:
    pairs = list(zip(both, rules, strict=True))
    numbers: dict[tuple[object, ...], int] = {}
    process = [
        numbers.setdefault((*c.key[:6], r.group) if r.process else (*c.key, r.group), len(numbers))
        for c, r in pairs
    ]
    return noise.Readings(
        logarithms([couple.a for couple in both]),
        logarithms([couple.b for couple in both]),
        np.asarray([within(c) if r.reading == "median" else 0.0 for c, r in pairs]),
        np.asarray(process, dtype=np.int64),
        np.asarray([rule.process for rule in rules]),
        np.asarray([rule.figure for rule in rules]),
        np.unique([rule.group for rule in rules], return_inverse=True)[1],
    )


def _row(couple: Couple, rule: Rule, judged: Judged) -> Row:
    key, document = couple.key, couple.source.document
    a, b = _middle(couple.a), _middle(couple.b)
    if judged.low is not None:
        every = [other / one for other in values(couple.b) for one in values(couple.a)]
        ratio: float | None = median(every)
    else:
        ratio = b / a if a > 0 and b > 0 else None
    return Row(
        couple.source.machine, key.profile, key.probe, key.subject, key.metric,
        next(iter(couple.b.values())).unit, dict(sorted(key.axes)), rule.group, rule.least,
        is_exact(couple), rule.reading, document.emulated, a, b, ratio, judged.low, judged.high,
        judged.q, judged.verdict, judged.note, judged.open, document.command,
    )  # fmt: skip


def _missing(single: Sequence[Single], thresholds: Thresholds) -> list[Missing]:
    return [
        Missing(one.place, "a" if one.only == "a" else "b", one.reason)
        for one in single
        if not thresholds.of(one.place).ignore
    ]


def _facts(side: Side) -> SideFacts:
    stacks = sorted({f"{source.machine}/{source.stack}" for source in side.sources})
    runs = sorted({source.document.run for source in side.sources})
    return SideFacts(side.label, tuple(stacks), tuple(runs), len(side.sources))


def _why(pair: Pair) -> str:
    told = []
    for letter, side in (("A", pair.a), ("B", pair.b)):
        lines = sorted({" ".join(source.line) for source in side.sources})
        probes = sorted({source.document.probe for source in side.sources})
        told.append(f"{letter} has {', '.join(probes)} of {', '.join(lines)}")
    return f"{'; '.join(told)}: compare the same profile and experiments"


def _middle(cell: Mapping[Run, Figure]) -> float:
    return median(values(cell))


def _is_bytes(couple: Couple) -> bool:
    return next(iter(couple.b.values())).unit == "bytes"
