"""Medians and their intervals, without an assumption about the shape of the distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr

from allocmark.schema.figure import Axis, Figure, Kind
from allocmark.schema.flags import WIDE_INTERVAL, WIDE_SHARE

CONFIDENCE = 0.95


def median_interval(samples: ArrayLike) -> tuple[float, float] | None:
    """Return the 95 % interval of the median by order statistics, None for fewer than 6 samples.

    The k-th smallest and k-th largest of n samples enclose the median with probability
    1 - 2 P(X < k) for X binomial(n, 1/2) (David and Nagaraja, Order Statistics, 7.1).
    With five samples even the extremes enclose it only 93.75 % of the time.
    """
    ordered: NDArray[np.float64] = np.sort(np.asarray(samples, dtype=np.float64))
    n = len(ordered)
    k = _rank(n)
    return None if k == 0 else (float(ordered[k - 1]), float(ordered[n - k]))


@cache
def _rank(n: int) -> int:
    """Return the largest such k, 0 where there is none; a run asks for the same few n."""
    k = 0
    while bdtr(k, n, 0.5) <= (1 - CONFIDENCE) / 2:
        k += 1
    return k


def sampled_figure(
    metric: str,
    unit: str,
    kind: Kind,
    meter: str,
    axes: Mapping[str, Axis],
    samples: Sequence[float],
) -> Figure:
    """Return the figure of some readings: their median, its interval, and a flag if it is wide."""
    value = float(np.median(samples))
    interval = median_interval(samples)
    wide = interval is None or interval[1] - interval[0] > WIDE_SHARE * abs(value)
    flags = (WIDE_INTERVAL,) if wide and len(set(samples)) > 1 else ()
    return Figure(
        metric, unit, kind, meter, axes, value, list(samples), interval=interval, flags=flags
    )


def histogram(samples: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return the distinct readings and how often each occurred: lossless and small."""
    values, counts = np.unique(np.asarray(samples, dtype=np.float64), return_counts=True)
    return values.tolist(), counts.tolist()
