"""How much figures differ from run to run with nothing changed, and what goes beyond that.

The unit is the run: within one, all samples of a figure come from one process (or from one set of
fresh ones), and a process can be slower throughout. So a figure's logarithm in a run is taken as

    level + what its process does to all figures of its group + what it does by itself

with standard deviations `process` and `figure`. They come from the thresholds, and from the
residuals of the sides that have several runs, which count the more the more runs there are.
A figure's own variance is moderated by that of its group (the moderated t-test of Smyth 2004,
"Linear Models and Empirical Bayes Methods").

Two questions are asked of a figure: did it move beside the figures of its process, and did these
move together? Each has its probability; the smaller one counts twice (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from allocmark.schema.intervals import CONFIDENCE

PRIOR = 8.0
"""The degrees of freedom that the group's variance counts for beside a figure's own."""
EXPERIENCE = 1.0
"""What the thresholds say counts as much as so many runs beside the first of a side: those of one
hour differ by less than those of different days."""
LEAST_TOGETHER = 5
"""In a process with fewer figures of a group, what moves together cannot be told apart."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Readings:
    """Figures above zero: logarithms by figure and run (NaN where a run lacks it), both sides.

    `within` is the variance of a figure's logarithm in one run, from its own interval. `process`
    numbers the process that figures share (their document, group); `process_sd` and `figure_sd`
    are the thresholds'; `kind` numbers the groups, whose figures learn from each other.
    """

    a: Floats
    b: Floats
    within: Floats
    process: Ints
    process_sd: Floats
    figure_sd: Floats
    kind: Ints


@dataclass(frozen=True)
class Moves:
    """For each figure: the difference of logarithms b - a, its interval, and what it is due to.

    The interval is that of the question which `p` answers: where a figure can be told apart from
    its process, it is as wide as the part in question leaves it, the other part taken as it is.
    `half` is what runs of such a figure differ by in all, to either side.
    `together` is what all figures of its process moved by (0 where that cannot be told), `alone`
    what is left. `p` is the probability of such a move with nothing changed, `by_process` whether
    it is that of the common move.
    """

    difference: Floats
    low: Floats
    high: Floats
    half: Floats
    together: Floats
    alone: Floats
    p: Floats
    by_process: NDArray[np.bool_]


def moves(read: Readings) -> Moves:
    """Return what moved, and how likely that is with nothing changed."""
    difference = hodges_lehmann(read.a, read.b)
    shared = _sizes(read.process) >= LEAST_TOGETHER
    together = np.where(shared, _group_medians(difference, read.process), 0.0)
    alone = difference - together
    shrink = np.sqrt(1 / _runs(read.a) + 1 / _runs(read.b))

    read = _folded(read, shared)
    process_variance, process_dof, figure_variance, figure_dof = _variances(read, shared)
    own = np.maximum(figure_variance, read.within)
    se_alone = np.sqrt(own) * shrink
    se_together = np.sqrt(process_variance) * shrink
    p_alone = two_sided(alone, se_alone, figure_dof)
    p_together = np.where(shared, two_sided(together, se_together, process_dof), 1.0)
    se_all = np.sqrt(own + process_variance) * shrink
    p_plain = two_sided(difference, se_all, figure_dof)
    # A part that points the other way than the whole is no reason for the whole.
    p_alone = np.where(np.sign(alone) == np.sign(difference), p_alone, 1.0)
    p_together = np.where(np.sign(together) == np.sign(difference), p_together, 1.0)
    p = np.where(shared, np.minimum(1.0, 2 * np.minimum(p_alone, p_together)), p_plain)
    by_process = shared & (p_together < p_alone)
    whole = _half(se_all, figure_dof)
    part = np.where(by_process, _half(se_together, process_dof), _half(se_alone, figure_dof))
    half = np.where(shared, part, whole)
    return Moves(
        difference=difference,
        low=difference - half,
        high=difference + half,
        half=whole,
        together=together,
        alone=alone,
        p=p,
        by_process=by_process,
    )


def _half(error: Floats, dof: Floats) -> Floats:
    """Return the half width of the interval of a value with this standard error."""
    return np.asarray(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, dof) * error)


def hodges_lehmann(a: Floats, b: Floats) -> Floats:
    """Return the median of all differences between a run of b and a run of a, figure by figure.

    Hodges and Lehmann 1963: the estimator that belongs to the rank-sum test.
    """
    a, b = _to_the_left(a), _to_the_left(b)
    every = (b[:, :, None] - a[:, None, :]).reshape(len(a), -1)
    # numpy's nanmedian goes through the rows one by one, and there are 100,000.
    ordered = np.sort(every, axis=1)
    known = (~np.isnan(ordered)).sum(axis=1)
    rows, last = np.arange(len(a)), np.maximum(known, 1) - 1
    return np.asarray((ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2)


def _to_the_left(side: Floats) -> Floats:
    """Return the runs of each figure without those that no figure needs: of many stacks, most."""
    most = int(_runs(side).max(initial=1))
    return side if most == side.shape[1] else np.sort(side, axis=1)[:, : max(most, 1)]


@dataclass(frozen=True, slots=True)
class Spread:
    """The deviations of one group, learned from runs, and their degrees of freedom."""

    process_sd: float
    process_dof: float
    figure_sd: float
    typical_sd: float


def spread(sides: Sequence[Floats], process: Ints) -> Spread:
    """Return what runs of one stack differ by, for the figures of one group (nan if unknown)."""
    shared = _sizes(process) >= LEAST_TOGETHER
    together, dof, alone, dof_alone = _residuals(sides, process, shared)
    first = np.unique(process, return_index=True)[1]
    common, common_dof = together[first].sum(), dof[first].sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return Spread(
            process_sd=float(np.sqrt(common / common_dof)) if common_dof else 0.0,
            process_dof=float(common_dof),
            figure_sd=float(np.sqrt(alone.sum() / dof_alone.sum())),
            typical_sd=float(np.sqrt(_typical(alone, dof_alone))),
        )


def _variances(read: Readings, shared: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the variances of both kinds for each figure, with their degrees of freedom.

    A process's own is pooled over the processes of its group; a figure's is its own, moderated by
    that of the figure in the middle of the group.
    """
    together, process_dof_of, alone, figure_dof = _residuals((read.a, read.b), read.process, shared)
    kind = read.kind
    first = np.zeros(len(kind), dtype=bool)
    first[np.unique(read.process, return_index=True)[1]] = True

    process, process_dof = np.empty(len(kind)), np.empty(len(kind))
    typical = np.empty(len(kind))
    for number in range(kind.max() + 1):
        among = kind == number
        once = among & first
        dof = process_dof_of[once].sum()
        learnt = together[once].sum() / dof if dof else 0.0
        weight = weight_of(process_dof_of[among])
        process_dof[among] = PRIOR + weight * dof
        process[among] = weight * learnt + (1 - weight) * read.process_sd[among] ** 2
        weight = weight_of(figure_dof[among])
        found = _typical(alone[among], figure_dof[among])
        typical[among] = weight * found + (1 - weight) * read.figure_sd[among] ** 2
    # Never less than its own: a figure that does not hold still is not helped by those that do.
    figure = np.maximum(
        (PRIOR * typical + alone) / (PRIOR + figure_dof), alone / np.maximum(figure_dof, 1)
    )
    return process, process_dof, figure, PRIOR + figure_dof


def weight_of(dof: Floats) -> float:
    """Return what the runs count for beside the thresholds: `dof` are those of single figures."""
    runs = float(dof.max(initial=0.0))
    return runs / (runs + EXPERIENCE)


def _typical(squares: Floats, dof: Floats) -> float:
    """Return the variance of the figure in the middle: a few that never hold still do not count.

    A sum of squares of n degrees of freedom is the variance times a chi-squared variable, whose
    median is known.
    """
    known = dof > 0
    if not known.any():
        return 0.0
    return float(np.median(squares[known] / scipy.stats.chi2.median(dof[known])))


def _folded(read: Readings, shared: NDArray[np.bool_]) -> Readings:
    """Return the readings with both deviations in one where they cannot be told apart."""
    both = np.hypot(read.process_sd, read.figure_sd)
    return replace(
        read,
        process_sd=np.where(shared, read.process_sd, 0.0),
        figure_sd=np.where(shared, read.figure_sd, both),
    )


def _residuals(
    sides: Sequence[Floats], process: Ints, shared: NDArray[np.bool_]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return sums of squared residuals of both kinds and their degrees of freedom, by figure."""
    size = len(process)
    together, dof, alone, dof_alone = (np.zeros(size) for _ in range(4))
    for side in sides:
        known = ~np.isnan(side)
        runs = known.sum(axis=1)
        several = runs > 1
        if not several.any():
            continue
        with np.errstate(invalid="ignore"):
            centre = np.where(several, np.nansum(side, axis=1) / np.maximum(runs, 1), np.nan)
        left = side - centre[:, None]
        common = np.stack([_group_medians(column, process) for column in left.T], axis=1)
        common = np.where(shared[:, None], common, 0.0)
        own = left - common
        together += np.where(several, np.nansum(common**2, axis=1), 0.0)
        dof += np.where(several & shared, runs - 1, 0)
        alone += np.where(several, np.nansum(own**2, axis=1), 0.0)
        dof_alone += np.where(several, runs - 1, 0)
    return together, dof, alone, dof_alone


def _group_medians(values: Floats, group: Ints) -> Floats:
    """Return for each figure the median over the figures of its group (NaN where all lack it)."""
    ordered = values[np.lexsort((values, group))]  # By group; what is NaN comes last in each.
    size = np.bincount(group)
    known = np.bincount(group[~np.isnan(values)], minlength=len(size))
    first, last = np.cumsum(size) - size, np.maximum(known, 1) - 1
    low, high = (np.minimum(first + at, len(ordered) - 1) for at in (last // 2, (last + 1) // 2))
    found = np.where(known, (ordered[low] + ordered[high]) / 2, np.nan)
    return np.asarray(found[group])


def _sizes(group: Ints) -> Ints:
    return np.asarray(np.bincount(group)[group])


def _runs(side: Floats) -> Ints:
    return np.asarray((~np.isnan(side)).sum(axis=1))


def two_sided(value: Floats, error: Floats, dof: Floats) -> Floats:
    """Return the probability of a value as far from 0 as this, with this standard error."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, np.abs(value) / error, np.where(value == 0, 0.0, np.inf))
    return np.asarray(2 * scipy.stats.t.sf(t, dof))
