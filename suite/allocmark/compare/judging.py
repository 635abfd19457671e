"""Verdicts of couples.

Exact figures are compared by equality. The others are worse or better where three things hold: the
difference is at least the smallest that matters, it is beyond what runs of such figures differ by
(`noise`, corrected for the number of figures after Benjamini and Hochberg), and the readings
themselves are apart (`guard`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from allocmark.compare import noise, rank_test
from allocmark.compare.model import Verdict
from allocmark.compare.pairing import Couple
from allocmark.compare.readings import direction, has_zero, is_exact, logarithms, within
from allocmark.compare.thresholds import Rule
from allocmark.system.units import MIB

LEVEL = 0.05
"""The share of false alarms among what is called changed."""
GRAIN_BYTES = 2 * MIB
"""The pages of the GPU: readings of its memory closer than that are alike."""
TOO_WIDE = 6.0
"""An interval wider than this many smallest differences that matter tells nothing: unclear."""
_OF_SO_MANY = "of so many figures, one moves that far with nothing changed"
"""The interval is that of one figure, the correction is for all of its group."""
SETTLES = 0.5
"""A difference of more than this part of its interval's half may be settled by a few more runs."""
FEWEST_RUNS = 3
"""Runs a side that must agree among themselves before a figure that was 0 counts as changed."""


class Judged(NamedTuple):
    """What is said of one couple; the fields are those of `model.Row`."""

    verdict: Verdict
    note: str
    low: float | None = None
    high: float | None = None
    q: float | None = None
    open: bool = False


class _Move(NamedTuple):
    """What `noise` found of one figure: `noise.Moves`, as plain numbers, and what was corrected.

    `low` and `high` are ratios, `half` is relative; the others are logarithms.
    """

    difference: float
    low: float
    high: float
    half: float
    part: float
    together: float
    by_process: bool
    q: float

    @property
    def told(self) -> tuple[float, float, float]:
        """What stands with the verdict."""
        return self.low, self.high, self.q


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
    a, b = set(couple.values_a), set(couple.values_b)
    if a == b and len(a) == 1:
        return Judged("same", "equal")
    if len(a) == len(b) == 1:
        return Judged(direction(b.pop() - a.pop(), rule), "not equal")
    # A side of several nights holds the steps that were accepted between them.
    if min(b) > max(a) or max(b) < min(a):
        return Judged(direction(median(b) - median(a), rule), "beyond every run of the other side")
    return Judged("unclear", "exact, yet it differs between runs of one side")


def _with_zero(couple: Couple, rule: Rule) -> Judged:
    a, b = couple.values_a, couple.values_b
    difference = median(b) - median(a)
    if difference == 0 or (_is_bytes(couple) and abs(difference) <= GRAIN_BYTES):
        return Judged("same", "equal" if difference == 0 else "within a page of the GPU")
    steady = len(set(a)) == len(set(b)) == 1
    if steady and min(len(a), len(b)) >= FEWEST_RUNS:
        return Judged(direction(difference, rule), "the same in every run of a side")
    return Judged("unclear", "one side read 0: no ratio, and too few runs that agree", open=True)


def _sampled(both: Sequence[Couple], rules: Sequence[Rule]) -> list[Judged]:
    moves = list(_moves(noise.moves(_readings(both, rules)), rules))
    judged = [_at_rest(*of) for of in zip(both, rules, moves, strict=True)]
    left = [index for index, one in enumerate(judged) if one is None]
    overlap = rank_test.overlapping(
        # What their whole process moved by is taken off.
        [(both[i].a, both[i].b, 0.0 if moves[i].by_process else moves[i].together) for i in left]
    )
    moved = {i: _moved(rules[i], moves[i], no) for i, no in zip(left, overlap, strict=True)}
    return [one or moved[index] for index, one in enumerate(judged)]


def _moves(found: noise.Moves, rules: Sequence[Rule]) -> Iterator[_Move]:
    q = _corrected(found.p, [rule.group for rule in rules])
    columns = (
        found.difference, found.low, found.high, found.half, found.high - found.difference,
        found.together, found.by_process, q,
    )  # fmt: skip
    for difference, low, high, half, *rest in zip(*(c.tolist() for c in columns), strict=True):
        # A logarithm beyond all measures is cut, so that no power overflows.
        ratios = math.exp(min(low, 50.0)), math.exp(min(high, 50.0)), math.expm1(min(half, 50.0))
        yield _Move(difference, *ratios, *rest)


def _corrected(p: NDArray[np.float64], groups: Sequence[str]) -> NDArray[np.float64]:
    """Return the probabilities after the correction, made for each group by itself.

    Otherwise hundreds of figures that never hold still would hide a change in the few that do.
    """
    number = _numbered(groups)
    q = np.empty(len(p))
    for group in range(number.max() + 1):
        chosen = number == group
        q[chosen] = scipy.stats.false_discovery_control(p[chosen])
    return q


def _at_rest(couple: Couple, rule: Rule, move: _Move) -> Judged | None:
    """Return the verdict where the difference is none to speak of, None where it may be one."""
    if set(couple.values_a) == set(couple.values_b):
        return Judged("same", "equal", *move.told)
    if _is_bytes(couple) and abs(median(couple.values_b) - median(couple.values_a)) <= GRAIN_BYTES:
        return Judged("same", "within a page of the GPU", *move.told)
    # In logarithms, so that the verdict is the same the other way round.
    if math.expm1(abs(move.difference)) < rule.least:
        if move.half > TOO_WIDE * rule.least:
            return Judged("unclear", "runs of such a figure differ too much to tell", *move.told)
        return Judged("same", f"less than the {rule.least:.0%} that matter", *move.told)
    # What is called a change has an interval that says so too.
    if move.q > LEVEL or move.low <= 1 <= move.high:
        near = abs(move.difference) > SETTLES * move.part
        inside = move.low <= 1 <= move.high
        note = "within what runs of such figures differ by" if inside else _OF_SO_MANY
        return Judged("unclear", note, *move.told, near)
    return None


def _moved(rule: Rule, move: _Move, overlap: bool) -> Judged:
    """Return the verdict of a difference beyond noise, by whether its readings overlap."""
    if overlap:
        return Judged("unclear", "the readings overlap too much", *move.told, True)
    together = f"{math.expm1(move.together):+.1%}"
    if move.by_process:
        note = f"all of its group moved in its process, by {together}"
    elif move.together:
        note = f"beside the others of its process, which moved by {together}"
    else:
        note = "beyond what runs of such figures differ by"
    return Judged(direction(move.difference, rule), note, *move.told)


def _readings(both: Sequence[Couple], rules: Sequence[Rule]) -> noise.Readings:
    pairs = list(zip(both, rules, strict=True))
    return noise.Readings(
        logarithms([couple.a for couple in both]),
        logarithms([couple.b for couple in both]),
        np.asarray([within(c) if r.reading == "median" else 0.0 for c, r in pairs]),
        # Where processes are alike, each figure is by itself.
        _numbered((c.key.home, r.group) if r.process else c.key for c, r in pairs),
        np.asarray([rule.process for rule in rules]),
        np.asarray([rule.figure for rule in rules]),
        _numbered(rule.group for rule in rules),
    )


def _numbered(names: Iterable[object]) -> NDArray[np.int64]:
    """Return a number for each name, the same for the same."""
    numbers: dict[object, int] = {}
    return np.asarray([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _is_bytes(couple: Couple) -> bool:
    return next(iter(couple.b.values())).unit == "bytes"
