"""The rank test: whether the readings themselves of two sides differ in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb, exp
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from allocmark.compare.pairing import Run
from allocmark.schema.figure import Figure

LEVEL = 0.05
_EXACT_UP_TO = 20
"""Readings a side up to which the test is exact; beyond, it is the usual approximation."""

_EXACT: Literal["exact"] = "exact"
_ASYMPTOTIC: Literal["asymptotic"] = "asymptotic"

Floats = NDArray[np.float64]
Side = Mapping[Run, Figure]


def overlapping(pairs: Sequence[tuple[Side, Side, float]]) -> list[bool]:
    """Return of each pair whether its readings overlap too much to be apart.

    `pairs` are both sides and the logarithm that B moved by for a reason that is known, which is
    taken off. What the test cannot tell is not called overlapping: figures that are no medians of
    their readings, and so few readings that no order of them would be a surprise.
    """
    figures = [figure for a, b, _ in pairs for side in (a, b) for figure in side.values()]
    medians = dict(zip(map(id, figures), _are_medians(figures), strict=True))
    found = [False] * len(pairs)
    alike: dict[tuple[int, int], list[tuple[int, Floats, Floats]]] = {}
    for index, (a, b, moved) in enumerate(pairs):
        if all(medians[id(figure)] for side in (a, b) for figure in side.values()):
            one, other = _of_side(a), _of_side(b) / exp(moved)
            alike.setdefault((len(one), len(other)), []).append((index, one, other))
    for sizes, members in alike.items():
        if _can_decide(*sizes):
            ones, others = (np.stack([member[side] for member in members]) for side in (1, 2))
            for (index, *_), p in zip(members, _probabilities(ones, others), strict=True):
                found[index] = bool(p > LEVEL)
    return found


def _can_decide(a: int, b: int) -> bool:
    """Whether readings without any overlap would be a surprise; three against three are none."""
    return min(a, b) > 0 and 2 / comb(a + b, min(a, b)) <= LEVEL


def _probabilities(a: Floats, b: Floats) -> Floats:
    """Return the probability of Mann and Whitney's test, row by row."""
    found = np.empty(len(a))
    both = np.sort(np.concatenate([a, b], axis=1), axis=1)
    small = max(a.shape[1], b.shape[1]) <= _EXACT_UP_TO
    exact = small & ~(np.diff(both, axis=1) == 0).any(axis=1)
    for rows, method in ((exact, _EXACT), (~exact, _ASYMPTOTIC)):
        if rows.any():
            found[rows] = scipy.stats.mannwhitneyu(a[rows], b[rows], axis=1, method=method).pvalue
    return found


def _are_medians(figures: Sequence[Figure]) -> list[bool]:
    """Return of each figure whether its value is the median of its readings: what ranks tell of."""
    found = [False] * len(figures)
    alike: dict[int, list[tuple[int, Floats]]] = {}
    for index, figure in enumerate(figures):
        if figure.samples:
            readings = _expanded(figure)
            alike.setdefault(len(readings), []).append((index, readings))
    for members in alike.values():
        medians = np.median(np.stack([readings for _, readings in members]), axis=1)
        values = np.asarray([figures[index].value for index, _ in members], dtype=np.float64)
        for (index, _), is_one in zip(members, np.isclose(medians, values, rtol=1e-9), strict=True):
            found[index] = bool(is_one)
    return found


def _of_side(side: Side) -> Floats:
    """Return all readings of a figure in several runs, repeated as often as they were read."""
    return np.concatenate([_expanded(figure) for figure in side.values()])


def _expanded(figure: Figure) -> Floats:
    values = np.asarray(figure.samples, dtype=np.float64)
    return np.repeat(values, np.asarray(figure.counts, dtype=np.int64)) if figure.counts else values
