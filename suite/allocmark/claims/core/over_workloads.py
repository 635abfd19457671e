"""What several workloads say together: with an interval over them, or by most of them.

A verdict that other workloads would turn is no verdict. So a figure of several workloads has the
95 % interval of its bootstrap over workloads, a share of workloads that of Wilson, and a limit
that lies within such an interval leaves the claim undecided.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import scipy

from allocmark.claims.core.claim import Ruling

LEAST_WORKLOADS = 4
"""Fewer have no interval that says anything."""
_CONFIDENCE = 0.95
_RESAMPLES = 1000
_SEED = 0
Of = TypeVar("Of")


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several workloads, and what it may be of others like them."""

    value: float
    low: float
    high: float

    def at_least(self, least: float) -> Ruling:
        """Return whether it is at least so much: undecided where the interval has both sides."""
        if self.low >= least:
            return Ruling.HOLDS
        return Ruling.FAILS if self.high < least else Ruling.UNDECIDED


def spread(workloads: Sequence[Of], statistic: Callable[[Sequence[Of]], float]) -> Spread:
    """Return a statistic of workloads with the interval of its bootstrap over them.

    Samples of which there is no such statistic (`ZeroDivisionError`) are left out. Of fewer than
    `LEAST_WORKLOADS` the interval has no end. Raises `ZeroDivisionError` where there is none of
    the whole.
    """

    def of(indexes: Any) -> float:
        try:
            return statistic([workloads[int(index)] for index in indexes])
        except ZeroDivisionError:
            return float("nan")

    value = statistic(workloads)
    if len(workloads) < LEAST_WORKLOADS:
        return Spread(value, float("-inf"), float("inf"))
    with warnings.catch_warnings():
        # Of workloads that all say the same, which is no reason to warn.
        warnings.simplefilter("ignore", scipy.stats.DegenerateDataWarning)
        drawn = scipy.stats.bootstrap(
            (np.arange(len(workloads)),),
            of,
            vectorized=False,
            n_resamples=_RESAMPLES,
            method="percentile",
            rng=_SEED,
        )
    # Its own interval has no end where there is one sample without the statistic.
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.nanquantile(drawn.bootstrap_distribution, (tail, 1 - tail))
    return Spread(value, float(low), float(high))


def of_workloads(so: float, tried: float) -> Spread:
    """Return the share of workloads of which something is so, with Wilson's interval."""
    interval = scipy.stats.binomtest(int(so), int(tried)).proportion_ci(
        _CONFIDENCE, method="wilson"
    )
    return Spread(so / tried, float(interval.low), float(interval.high))


def in_most(so: float, tried: float) -> Ruling:
    """Return whether something is so in most workloads: undecided where that may be chance."""
    return of_workloads(so, tried).at_least(0.5)
