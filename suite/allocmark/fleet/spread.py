"""How far each machine is from the others, and how likely that is for one that is like them.

Rows are figures, or means of many, as logarithms by machine: level + machine + run. What runs of
one machine differ by is learned from all machines, moderated by what the thresholds say, as
`compare.noise` does it. What machines differ by is the larger part of a fleet's spread, and is
taken from the fleet itself, robustly: each machine is held against the median of the others, in
units of their median absolute deviation. Of few machines that says little, so it is moderated, too:
by the part of the thresholds' deviation that a host is taken to have in common (`means.HOST`), for
`noise.PRIOR` degrees of freedom.

Source: Rousseeuw and Croux 1993, "Alternatives to the Median Absolute Deviation" (its constant and
its efficiency at the normal distribution); Smyth 2004 as in `compare.noise`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from allocmark.compare.noise import PRIOR, two_sided
from allocmark.schema.intervals import CONFIDENCE

Floats = NDArray[np.float64]
_TO_SD = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""
_EFFICIENCY = 0.37
"""So many readings of a standard deviation is one of the median absolute deviation worth."""
_MEDIANS = np.pi / 2
"""A median's variance over a mean's."""
FEW = 20
"""Machines up to which each is left out of what it is held against; of more, one does not count."""


@dataclass(frozen=True, slots=True)
class Away:
    """By row and machine: the logarithm's distance from the others, half its interval, and p.

    NaN where a machine or all others lack the figure.
    """

    difference: Floats
    half: Floats
    p: Floats


def machine_values(runs: Floats, machine: NDArray[np.int64], count: int) -> tuple[Floats, Floats]:
    """Return the median of each machine's runs, and the sum of squares of the runs about it.

    `runs` are by row and run; the second by row only, scaled to what it would be about the mean.
    """
    found = np.full((len(runs), count), np.nan)
    squares = np.zeros(len(runs))
    for number in range(count):
        own = runs[:, machine == number]
        if own.shape[1] == 1:
            found[:, number] = own[:, 0]
            continue
        found[:, number] = row_medians(own)
        left = own - found[:, number, None]
        squares += np.nansum(left**2, axis=1)
    return found, squares


def degrees(runs: Floats, machine: NDArray[np.int64], count: int) -> Floats:
    """Return of each row the degrees of freedom of `machine_values`' sums of squares."""
    known = ~np.isnan(runs)
    several = [
        np.maximum(known[:, machine == number].sum(axis=1) - 1, 0) for number in range(count)
    ]
    return np.asarray(np.sum(several, axis=0), dtype=np.float64)


def away(values: Floats, run_variance: Floats, host_variance: Floats, runs: Floats) -> Away:
    """Return how far each machine is from the others.

    `run_variance` and `host_variance` are by row, `runs` by machine: how many it has.
    """
    centre, scale, others = _others(values)
    expected = run_variance[:, None] / runs[None, :] + host_variance[:, None]
    known = np.maximum(_EFFICIENCY * (others - 1), 0.0)
    variance = (PRIOR * expected + known * scale**2) / (PRIOR + known)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(variance * (1 + _MEDIANS / others))
        difference = values - centre
        half = scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, PRIOR + known) * error
        p = two_sided(difference, error, PRIOR + known)
    return Away(difference, half, np.where(np.isnan(difference), np.nan, p))


def _others(values: Floats) -> tuple[Floats, Floats, Floats]:
    """Return for each machine the median, the scaled deviation and the number of the others."""
    rows, count = values.shape
    if count > FEW:
        centre = row_medians(values)[:, None]
        scale = _TO_SD * row_medians(np.abs(values - centre))[:, None]
        others = ((~np.isnan(values)).sum(axis=1) - 1)[:, None].astype(np.float64)
        shape = rows, count
        return np.broadcast_to(centre, shape), np.broadcast_to(scale, shape), others
    centres, scales, numbers = (np.full((rows, count), np.nan) for _ in range(3))
    for number in range(count):
        rest = np.delete(values, number, axis=1)
        centre = row_medians(rest)
        centres[:, number] = centre
        scales[:, number] = _TO_SD * row_medians(np.abs(rest - centre[:, None]))
        numbers[:, number] = (~np.isnan(rest)).sum(axis=1)
    return centres, scales, numbers


def row_medians(values: Floats) -> Floats:
    """Return the median of each row without its NaNs, NaN where a row has nothing else."""
    ordered = np.sort(values, axis=1)  # What is NaN comes last; numpy's nanmedian is slow by rows.
    known = (~np.isnan(ordered)).sum(axis=1)
    rows, last = np.arange(len(values)), np.maximum(known, 1) - 1
    return np.asarray((ordered[rows, last // 2] + ordered[rows, (last + 1) // 2]) / 2)
