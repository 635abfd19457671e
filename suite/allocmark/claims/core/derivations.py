"""Functions by which a figure of a verdict follows from rows of the store.

Each takes values, or pairs of them, in the order in which the evidence lists the rows. What one
claim alone needs stands beside its rule.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

Values = Sequence[float]
Pairs = Sequence[tuple[float, float]]


def total(values: Values) -> float:
    """Return their sum."""
    return float(sum(values))


def median(values: Values) -> float:
    """Return their median."""
    return float(statistics.median(values))


def zeros(values: Values) -> float:
    """Return how many are 0."""
    return float(sum(value == 0 for value in values))


def share_of_zeros(values: Values) -> float:
    """Return the share that is 0."""
    return zeros(values) / len(values)


def positives(values: Values) -> float:
    """Return how many are above 0."""
    return float(sum(value > 0 for value in values))


def share_of_positives(values: Values) -> float:
    """Return the share above 0."""
    return positives(values) / len(values)


def ratio(pairs: Pairs) -> float:
    """Return the sum of all first over the sum of all second."""
    return sum(first for first, _ in pairs) / sum(second for _, second in pairs)


def difference(pairs: Pairs) -> float:
    """Return the sum of all first less second."""
    return float(sum(first - second for first, second in pairs))


def larger(pairs: Pairs) -> float:
    """Return in how many the first is larger."""
    return float(sum(first > second for first, second in pairs))
