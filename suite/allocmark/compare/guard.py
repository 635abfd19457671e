"""The rank test: whether the readings themselves of two sides differ in place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import comb

import numpy as np
import scipy
from numpy.typing import NDArray

from allocmark.figures import Figure

LEVEL = 0.05
_EXACT_UP_TO = 20
"""Readings a side up to which the test is exact; beyond, it is the usual approximation."""


def readings(figures: Collection[Figure]) -> NDArray[np.float64]:
    """Return all readings of a figure in several runs, repeated as often as they were read."""
    return np.concatenate([_expanded(figure) for figure in figures])


def apart(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool | None:
    """Return whether Mann and Whitney's test tells the two apart, None where it could not.

    It cannot where even readings without any overlap would be no surprise (three against three),
    and it says nothing of a figure that is no median.
    """
    smaller, larger = sorted((len(a), len(b)))
    if not smaller or 2 / comb(smaller + larger, smaller) > LEVEL:
        return None
    exact = larger <= _EXACT_UP_TO and not _tied(a, b)
    found = scipy.stats.mannwhitneyu(
        a.tolist(), b.tolist(), method="exact" if exact else "asymptotic"
    )
    return bool(found.pvalue <= LEVEL)


def is_median(figure: Figure) -> bool:
    """Whether the value is the median of the readings, which ranks are about."""
    if not figure.samples or figure.value is None:
        return False
    expanded = _expanded(figure)
    return bool(np.isclose(np.median(expanded), figure.value, rtol=1e-9))


def _expanded(figure: Figure) -> NDArray[np.float64]:
    samples: Sequence[float] = figure.samples
    values = np.asarray(samples, dtype=np.float64)
    return np.repeat(values, figure.counts) if figure.counts else values


def _tied(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    both = np.concatenate([a, b])
    return len(np.unique(both)) < len(both)
