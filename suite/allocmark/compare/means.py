"""Geometric means of many figures, each with a verdict: what a step in all of them shows best.

One figure of a process is as noisy as it is; the mean of the hundred that one allocator has of a
group is not. Means are taken in three scopes, each corrected by itself:

- ``class``: all sizes of one call of one allocator (all axes alike but the size);
- ``allocator``: all figures of a group that one process read;
- ``all``: all figures of a group, of all allocators.

The unit is the run again: a mean has one value in each run. How much such a value differs from run
to run with nothing changed is learned from the runs of both sides. Until there are several, it is
taken from the thresholds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import numpy as np
import scipy
from scipy.special import ndtri

from allocmark.compare import noise
from allocmark.compare.judging import LARGEST, LEVEL, corrected, numbered
from allocmark.compare.model import Mean, Scope, Verdict
from allocmark.compare.noise import Floats, Ints
from allocmark.compare.pairing import FigureKey, FigurePair, series_of
from allocmark.compare.readings import (
    direction,
    has_zero,
    is_emulated_time,
    is_exact,
    logarithms,
)
from allocmark.compare.sensitivity import FOUND
from allocmark.compare.thresholds import Rule
from allocmark.schema.figure_id import figure_id_of
from allocmark.schema.intervals import CONFIDENCE

HOST = 0.25
"""The part of what processes differ by that all processes of a run are taken to have in common."""
_MOST = 0.5
"""A run counts for a mean when it has more than this share of its figures."""
_SIZE = "bytes"

Kept = Sequence[tuple[FigurePair, Rule]]


class GroupKey(NamedTuple):
    """What a mean is of; what its scope joins is empty. `cell` is the name of a class."""

    series_id: str
    probe: str
    subject: str
    cell: str
    group: str
    better: str

    @property
    def process(self) -> tuple[str, ...]:
        """The process that a class belongs to."""
        return (*self[:3], *self[4:])

    @property
    def among(self) -> tuple[str, ...]:
        """What the processes of a group have in common."""
        return (*self[:2], *self[4:])


@dataclass(frozen=True)
class Pools:
    """What the means of one scope are taken of.

    `keys` name the pools, `members` say which figures belong to each, `a` and `b` are the mean
    logarithms by pool and run (NaN where a run lacks most of it), taken from the mean of A.
    """

    scope: Scope
    keys: tuple[GroupKey, ...]
    members: tuple[Ints, ...]
    rules: tuple[Rule, ...]
    a: Floats
    b: Floats


@dataclass(frozen=True)
class Times:
    """The pairs that means are taken of, and their logarithms by run, from the mean of A."""

    kept: Kept
    a: Floats
    b: Floats


def timed(kept: Kept) -> Times | None:
    """Return the times, all above zero, that means are taken of; None where there are none."""
    chosen = [
        (pair, rule)
        for pair, rule in kept
        if next(iter(pair.b.values())).kind == "time"
        and not (is_exact(pair) or has_zero(pair) or is_emulated_time(pair))
    ]
    if not chosen:
        return None
    a, b = (logarithms([getattr(pair, side) for pair, _ in chosen]) for side in ("a", "b"))
    middle = np.nanmean(a, axis=1, keepdims=True)
    return Times(chosen, a - middle, b - middle)


def pools(times: Times, scope: Scope) -> Pools:
    """Return the pools of a scope; a class of a single figure is none: its row says it all."""
    found: dict[GroupKey, list[int]] = {}
    keys: dict[object, GroupKey] = {}
    for index, (pair, rule) in enumerate(times.kept):
        key = pair.key
        # A name is put together once for the many figures that share it.
        alike = key if scope == "class" else (key.document, rule.group, str(rule.better))
        if (group := keys.get(alike)) is None:
            group = keys[alike] = _group_key(key, rule, scope)
        found.setdefault(group, []).append(index)
    least = 2 if scope == "class" else 1
    named = {key: np.asarray(m) for key, m in sorted(found.items()) if len(m) >= least}
    members = tuple(named.values())
    return Pools(
        scope=scope,
        keys=tuple(named),
        members=members,
        rules=tuple(times.kept[m[0]][1] for m in members),
        a=_pooled(times.a, members),
        b=_pooled(times.b, members),
    )


def stepped(found: Pools, chosen: Ints, step: float) -> Pools:
    """Return the pools with a step in these of them, on side B."""
    b = found.b.copy()
    b[chosen] += math.log1p(step)
    return replace(found, b=b)


def judged(kept: Kept) -> tuple[Mean, ...]:
    """Return the means of all scopes with their verdicts, in the order of their groups."""
    times = timed(kept)
    if times is None:
        return ()
    by = pools(times, "allocator")
    found: list[Mean] = []
    for scope in get_args(Scope):
        these = by if scope == "allocator" else pools(times, scope)
        found += judge(these, by)
    scopes = get_args(Scope)
    return tuple(sorted(found, key=lambda m: (m.group, m.series_id, scopes.index(m.scope), m.name)))


def judge(found: Pools, by_allocator: Pools) -> list[Mean]:
    """Return the verdicts of one scope; `by_allocator` says how single processes differ."""
    if not found.keys:
        return []
    moved = noise.hodges_lehmann(found.a, found.b)
    half, p = _of_class(found) if found.scope == "class" else _of_processes(found, by_allocator)
    groups = [rule.group for rule in found.rules]
    many = Counter(groups)
    q = corrected(p, groups)
    means = []
    for i, (key, rule) in enumerate(zip(found.keys, found.rules, strict=True)):
        low, high, wide = (
            math.exp(min(float(x), LARGEST))
            for x in (moved[i] - half[i], moved[i] + half[i], half[i])
        )
        verdict, note, resolvable = _decide(
            float(moved[i]), wide - 1, low <= 1 <= high, float(q[i]), rule
        )
        if _known(found.a[i]) == _known(found.b[i]):
            verdict, note, resolvable = "same", "equal", False
        means.append(
            Mean(
                scope=found.scope,
                series_id=key.series_id,
                probe=key.probe,
                subject=key.subject,
                cell=key.cell,
                group=rule.group,
                least=rule.least,
                figures=len(found.members[i]),
                runs_a=_runs(found.a[i]),
                runs_b=_runs(found.b[i]),
                ratio=math.exp(float(moved[i])),
                low=low,
                high=high,
                q=float(q[i]),
                shows=max(rule.least, _found_from(float(half[i]), many[rule.group])),
                verdict=verdict,
                note=note,
                resolvable=resolvable,
            )
        )
    return means


def _decide(
    moved: float, half: float, none: bool, q: float, rule: Rule
) -> tuple[Verdict, str, bool]:
    """Return the verdict, what it rests on, and whether more runs can settle it.

    `half` is the interval to either side as a share, `none`: no change lies in it.
    """
    if math.expm1(abs(moved)) < rule.least:
        if half > rule.least:
            return "unclear", f"runs differ too much to tell {rule.least:.0%}", False
        return "same", f"less than the {rule.least:.0%} that matter", False
    if q > LEVEL or none:
        return "unclear", "within what runs of such figures differ by", True
    return direction(moved, rule), "beyond what runs of such figures differ by", False


def _found_from(half: float, many: int) -> float:
    """Return the smallest step that is found with probability `FOUND`, as one of `many` means."""
    needed = ndtri(1 - LEVEL / many / 2) + ndtri(FOUND)
    return math.expm1(min(half * float(needed / ndtri(0.5 + CONFIDENCE / 2)), LARGEST))


def _of_class(found: Pools) -> tuple[Floats, Floats]:
    """Return half the interval and the probability of each class.

    A class can move with its process or beside the others of it, as a figure can.
    """
    size = np.asarray([len(members) for members in found.members])
    process_sd = np.asarray([rule.process for rule in found.rules])
    figure_sd = np.asarray([rule.figure for rule in found.rules]) / np.sqrt(size)
    moves = noise.moves(
        noise.Readings(
            a=found.a,
            b=found.b,
            within=np.zeros(len(size)),
            process=numbered(key.process for key in found.keys),
            process_sd=process_sd,
            # The sizes of one call are read side by side: what disturbs one disturbs them all.
            figure_sd=np.maximum(figure_sd, process_sd / 2),
            kind=numbered(rule.group for rule in found.rules),
        )
    )
    return moves.high - moves.difference, moves.p


def _of_processes(found: Pools, by: Pools) -> tuple[Floats, Floats]:
    """Return half the interval and the probability of the means of whole processes.

    How much a process differs from run to run is its own, moderated by the other processes of its
    group; the mean of several processes is taken to differ by the less the more they are, unless
    its own runs say otherwise.
    """
    squares, dof = _residuals(by)
    own, own_dof = (squares, dof) if found.scope == "allocator" else _residuals(found)
    variance, known = np.empty(len(own)), np.empty(len(own))
    numbers: dict[object, int] = {}
    group = np.asarray([numbers.setdefault(k.among, len(numbers)) for k in by.keys])
    position = {k: number for number, k in enumerate(by.keys)}
    for i, (key, rule) in enumerate(zip(found.keys, found.rules, strict=True)):
        among = group == numbers.get(key.among, -1)
        count = int(among.sum()) if found.scope == "all" else 1
        if found.scope == "allocator" and key in position:
            among[position[key]] = False
        others = float(dof[among].sum())
        learnt = float(squares[among].sum()) / others if others else 0.0
        expected = rule.process**2 + rule.figure**2 * count / len(found.members[i])
        runs = noise.weight_of(dof[among])
        prior = runs * learnt + (1 - runs) * expected
        prior *= HOST + (1 - HOST) / count
        weight = noise.PRIOR
        moderated = (weight * prior + own[i]) / (weight + own_dof[i])
        variance[i] = max(moderated, own[i] / max(own_dof[i], 1.0))
        known[i] = weight + own_dof[i]
    shrink = np.sqrt(1 / _counted(found.a) + 1 / _counted(found.b))
    error = np.sqrt(variance) * shrink
    moved = noise.hodges_lehmann(found.a, found.b)
    p = noise.two_sided(moved, error, known)
    return np.asarray(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, known) * error), p


def _residuals(found: Pools) -> tuple[Floats, Floats]:
    """Return the sums of squares about the means of both sides, and their degrees of freedom."""
    squares, dof = np.zeros(len(found.keys)), np.zeros(len(found.keys))
    for side in (found.a, found.b):
        runs = _counted(side)
        left = side - np.nanmean(side, axis=1, keepdims=True)
        squares += np.nansum(left**2, axis=1)
        dof += np.maximum(runs - 1, 0)
    return squares, dof


def _pooled(logs: Floats, members: Sequence[Ints]) -> Floats:
    """Return the mean by pool and run over the figures that the run has, NaN where they are few."""
    found = np.full((len(members), logs.shape[1]), np.nan)
    for pool, chosen in enumerate(members):
        part = logs[chosen]
        known = (~np.isnan(part)).sum(axis=0)
        enough = known > _MOST * len(chosen)
        if not enough.any():  # Runs that each measured a part of it.
            enough = known == known.max()
        found[pool, enough] = np.nansum(part[:, enough], axis=0) / known[enough]
    return found


def _group_key(key: FigureKey, rule: Rule, scope: Scope) -> GroupKey:
    document = key.document
    subject = "" if scope == "all" else document.subject
    axes = {name: value for name, value in key.axes if name != _SIZE}
    cell = (
        figure_id_of(document.probe, document.subject, key.metric, axes) if scope == "class" else ""
    )
    return GroupKey(
        series_id=series_of(document),
        probe=document.probe,
        subject=subject,
        cell=cell,
        group=rule.group,
        better=str(rule.better),
    )


def _counted(side: Floats) -> Floats:
    return np.asarray((~np.isnan(side)).sum(axis=1), dtype=np.float64)


def _runs(row: Floats) -> int:
    return int((~np.isnan(row)).sum())


def _known(row: Floats) -> set[float]:
    return set(row[~np.isnan(row)].tolist())
