"""The readings of pairs as arrays: logarithms by figure and run, and what varies within a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from allocmark.compare.model import Verdict
from allocmark.compare.pairing import FigurePair, Run
from allocmark.compare.thresholds import Rule
from allocmark.schema.figure import Figure
from allocmark.schema.flags import DOES_NOT_REPEAT
from allocmark.schema.intervals import CONFIDENCE

_TIMES = ("ns", "s", "seconds")
_NORMAL = float(ndtri(0.5 + CONFIDENCE / 2))
"""Standard errors on either side that the interval of a median sensitivities."""


def is_exact(pair: FigurePair) -> bool:
    """Whether equality decides: every reading claims to be exact and none has broken its word."""
    for side in (pair.a, pair.b):
        for figure in side.values():
            if figure.kind != "exact" or DOES_NOT_REPEAT in figure.flags:
                return False
    return True


def is_emulated_time(pair: FigurePair) -> bool:
    """Whether it says how busy the host of an emulated driver was, and no more."""
    figure = next(iter(pair.b.values()))
    return pair.emulated and (figure.kind == "time" or figure.unit in _TIMES)


def has_zero(pair: FigurePair) -> bool:
    """Whether a reading is 0 or less, so that there is no ratio."""
    return min(pair.values_a) <= 0 or min(pair.values_b) <= 0


def as_read(pair: FigurePair, rule: Rule) -> FigurePair:
    """Return the pair with the reading that the rule compares as its values."""
    if rule.reading == "median" or is_exact(pair):
        return pair
    a, b = ({run: _fastest(f) for run, f in side.items()} for side in (pair.a, pair.b))
    return replace(pair, a=a, b=b)


def _fastest(figure: Figure) -> Figure:
    if not figure.samples:
        return figure
    # The interval is the median's, so it is none of this value.
    return replace(figure, value=min(figure.samples), interval=None)


def logarithms(cells: Sequence[Mapping[Run, Figure]]) -> NDArray[np.float64]:
    """Return the logarithms by figure and run, NaN where a run lacks the figure."""
    column: dict[Run, int] = {}
    for cell in cells:
        for run in cell:
            column.setdefault(run, len(column))
    found = np.full((len(cells), len(column)), np.nan)
    for row, cell in enumerate(cells):
        for run, figure in cell.items():
            found[row, column[run]] = math.log(figure.value or math.nan)
    return found


def within(pair: FigurePair) -> float:
    """Return the larger side's mean variance of the logarithm within a run, by the intervals."""
    return max(_mean_variance(side) for side in (pair.a, pair.b))


def _mean_variance(side: Mapping[Run, Figure]) -> float:
    if len(side) == 1:  # As most are; a mean of one takes as long as all the rest.
        (figure,) = side.values()
        return _variance(figure)
    return fmean(map(_variance, side.values()))


def _variance(figure: Figure) -> float:
    if figure.interval is not None and figure.interval[0] > 0:
        low, high = figure.interval
        return (math.log(high / low) / (2 * _NORMAL)) ** 2
    if len(figure.samples) > 1 and min(figure.samples) > 0 and not figure.counts:
        # Too few for an interval: the variance of a median of normal readings.
        logs = list(map(math.log, figure.samples))
        middle = fmean(logs)
        squares = sum((log - middle) ** 2 for log in logs)
        return math.pi / 2 * squares / (len(logs) - 1) / len(logs)
    return 0.0


def direction(difference: float, rule: Rule) -> Verdict:
    """Return what a real difference is by the rule."""
    if rule.better == "neither":
        return "changed"
    return "worse" if (difference > 0) == (rule.better == "less") else "better"
