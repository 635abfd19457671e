"""Verdicts of pairs of figures.

Exact figures are compared by equality. The others are worse or better where three things hold: the
difference is at least the smallest that matters, it is beyond what runs of such figures differ by
(`noise`, corrected for the number of figures after Benjamini and Hochberg), and the readings
themselves are apart (`rank_test`).
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
from allocmark.compare.pairing import FigurePair
from allocmark.compare.readings import (
    direction,
    has_zero,
    is_emulated_time,
    is_exact,
    logarithms,
    within,
)
from allocmark.compare.thresholds import Rule
from allocmark.system.units import MIB

LEVEL = 0.05
"""The share of false alarms among what is called changed: figures, or means of one scope."""
GRAIN_BYTES = 2 * MIB
"""The pages of the GPU: readings of its memory closer than that are alike."""
TOO_WIDE = 6.0
"""An interval wider than this many smallest differences that matter tells nothing: unclear."""
_OF_SO_MANY = "of so many figures, one moves that far with nothing changed"
"""The interval is that of one figure, the correction is for all of its group."""
SETTLES = 0.5
"""A difference of more than this part of its interval's half may be settled by a few more runs."""
LARGEST = 50.0
"""A logarithm that is beyond all measures, so that no power overflows."""
FEWEST_RUNS = 3
"""Runs a side that must agree among themselves before a figure that was 0 counts as changed."""


class Judgement(NamedTuple):
    """What is said of one pair; the fields are those of `model.Row`."""

    verdict: Verdict
    note: str
    low: float | None = None
    high: float | None = None
    q: float | None = None
    resolvable: bool = False


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

    def judged(self, verdict: Verdict, note: str, resolvable: bool = False) -> Judgement:
        """Return the judgement with that verdict."""
        return Judgement(verdict, note, self.low, self.high, self.q, resolvable)


def judge(both: Sequence[FigurePair], rules: Sequence[Rule]) -> list[Judgement]:
    """Return what is said of each pair: the correction is for all of these figures."""
    judgements: dict[int, Judgement] = {}
    sampled: list[int] = []
    for index, (pair, rule) in enumerate(zip(both, rules, strict=True)):
        if is_exact(pair):
            judgements[index] = _exact(pair, rule)
        elif is_emulated_time(pair):
            judgements[index] = Judgement("unclear", "times of the emulated driver are not judged")
        elif has_zero(pair):
            judgements[index] = _with_zero(pair, rule)
        else:
            sampled.append(index)
    if sampled:
        chosen = [both[i] for i in sampled], [rules[i] for i in sampled]
        judgements |= dict(zip(sampled, _sampled(*chosen), strict=True))
    return [judgements[index] for index in range(len(both))]


def _exact(pair: FigurePair, rule: Rule) -> Judgement:
    a, b = set(pair.values_a), set(pair.values_b)
    if a == b and len(a) == 1:
        return Judgement("same", "equal")
    if len(a) == len(b) == 1:
        return Judgement(direction(b.pop() - a.pop(), rule), "not equal")
    # A side of several nights holds the steps that were accepted between them.
    if min(b) > max(a) or max(b) < min(a):
        return Judgement(
            direction(median(b) - median(a), rule), "beyond every run of the other side"
        )
    return Judgement("unclear", "exact, yet it differs between runs of one side")


def _with_zero(pair: FigurePair, rule: Rule) -> Judgement:
    a, b = pair.values_a, pair.values_b
    difference = median(b) - median(a)
    if difference == 0 or (_is_bytes(pair) and abs(difference) <= GRAIN_BYTES):
        return Judgement("same", "equal" if difference == 0 else "within a page of the GPU")
    steady = len(set(a)) == len(set(b)) == 1
    if steady and min(len(a), len(b)) >= FEWEST_RUNS:
        return Judgement(direction(difference, rule), "the same in every run of a side")
    return Judgement(
        "unclear", "one side read 0: no ratio, and too few runs that agree", resolvable=True
    )


def _sampled(both: Sequence[FigurePair], rules: Sequence[Rule]) -> list[Judgement]:
    moves = list(_moves(noise.moves(_readings(both, rules)), rules))
    found = [_at_rest(*each) for each in zip(both, rules, moves, strict=True)]
    left = [index for index, judgement in enumerate(found) if judgement is None]
    overlap = rank_test.overlapping(
        # What their whole process moved by is taken off.
        [(both[i].a, both[i].b, 0.0 if moves[i].by_process else moves[i].together) for i in left]
    )
    moved = {i: _moved(rules[i], moves[i], no) for i, no in zip(left, overlap, strict=True)}
    return [judgement or moved[index] for index, judgement in enumerate(found)]


def _moves(found: noise.Moves, rules: Sequence[Rule]) -> Iterator[_Move]:
    q = corrected(found.p, [rule.group for rule in rules])
    for i in range(len(q)):
        low, high, half = (
            min(float(column[i]), LARGEST) for column in (found.low, found.high, found.half)
        )
        yield _Move(
            difference=float(found.difference[i]),
            low=math.exp(low),
            high=math.exp(high),
            half=math.expm1(half),
            part=float(found.high[i] - found.difference[i]),
            together=float(found.together[i]),
            by_process=bool(found.by_process[i]),
            q=float(q[i]),
        )


def corrected(p: NDArray[np.float64], groups: Sequence[str]) -> NDArray[np.float64]:
    """Return the probabilities after the correction, made for each group by itself.

    Otherwise hundreds of figures that never hold still would hide a change in the few that do.
    """
    number = numbered(groups)
    q = np.empty(len(p))
    for group in range(number.max() + 1):
        chosen = number == group
        q[chosen] = scipy.stats.false_discovery_control(p[chosen])
    return q


def _at_rest(pair: FigurePair, rule: Rule, move: _Move) -> Judgement | None:
    """Return the verdict where the difference is none to speak of, None where it may be one."""
    if set(pair.values_a) == set(pair.values_b):
        return move.judged("same", "equal")
    if _is_bytes(pair) and abs(median(pair.values_b) - median(pair.values_a)) <= GRAIN_BYTES:
        return move.judged("same", "within a page of the GPU")
    # In logarithms, so that the verdict is the same the other way round.
    if math.expm1(abs(move.difference)) < rule.least:
        if move.half > TOO_WIDE * rule.least:
            return move.judged("unclear", "runs of such a figure differ too much to tell")
        return move.judged("same", f"less than the {rule.least:.0%} that matter")
    # What is called a change has an interval that says so too.
    if move.q > LEVEL or move.low <= 1 <= move.high:
        near = abs(move.difference) > SETTLES * move.part
        inside = move.low <= 1 <= move.high
        note = "within what runs of such figures differ by" if inside else _OF_SO_MANY
        return move.judged("unclear", note, resolvable=near)
    return None


def _moved(rule: Rule, move: _Move, overlap: bool) -> Judgement:
    """Return the verdict of a difference beyond noise, by whether its readings overlap."""
    if overlap:
        return move.judged("unclear", "the readings overlap too much", resolvable=True)
    together = f"{math.expm1(move.together):+.1%}"
    if move.by_process:
        note = f"all of its group moved in its process, by {together}"
    elif move.together:
        note = f"beside the others of its process, which moved by {together}"
    else:
        note = "beyond what runs of such figures differ by"
    return move.judged(direction(move.difference, rule), note)


def _readings(both: Sequence[FigurePair], rules: Sequence[Rule]) -> noise.Readings:
    pairs = list(zip(both, rules, strict=True))
    return noise.Readings(
        a=logarithms([pair.a for pair in both]),
        b=logarithms([pair.b for pair in both]),
        within=np.asarray([within(p) if r.reading == "median" else 0.0 for p, r in pairs]),
        # Where processes are alike, each figure is by itself.
        process=numbered((p.key.document, r.group) if r.process else p.key for p, r in pairs),
        process_sd=np.asarray([rule.process for rule in rules]),
        figure_sd=np.asarray([rule.figure for rule in rules]),
        kind=numbered(rule.group for rule in rules),
    )


def numbered(names: Iterable[object]) -> NDArray[np.int64]:
    """Return a number for each name, the same for the same."""
    numbers: dict[object, int] = {}
    return np.asarray([numbers.setdefault(name, len(numbers)) for name in names], dtype=np.int64)


def _is_bytes(pair: FigurePair) -> bool:
    return next(iter(pair.b.values())).unit == "bytes"
