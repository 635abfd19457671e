"""The functions by which a figure of a verdict follows from rows of the store, by name.

Each takes the rows' values in the order in which the evidence lists the rows. Where it works on
pairs, the rows come as first, second, first, second. Numbers that are given follow the values.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

Values = Sequence[float]


def _pairs(values: Values) -> list[tuple[float, float]]:
    return list(zip(values[::2], values[1::2], strict=True))


def _value(values: Values) -> float:
    (value,) = values
    return value


def _ratio(values: Values) -> float:
    first, second = values
    return first / second


def _change(values: Values) -> float:
    """Return first less second."""
    first, second = values
    return first - second


def _sum_ratio(values: Values) -> float:
    """Return the sum of all first over the sum of all second."""
    pairs = _pairs(values)
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs)


FUNCTIONS: dict[str, Callable[..., float]] = {
    "value": _value,
    "ratio": _ratio,
    "difference": _change,
    "sum": lambda values: float(sum(values)),
    "count": lambda values: float(len(values)),
    "median": lambda values: float(statistics.median(values)),
    "smallest": min,
    "largest": max,
    "share above zero": lambda values: sum(v > 0 for v in values) / len(values),
    "number above zero": lambda values: float(sum(v > 0 for v in values)),
    "one less the sum of the first over the sum of the second": lambda v: 1 - _sum_ratio(v),
    "sum of the first over sum of the second": _sum_ratio,
    "sum of the first less the second": lambda v: float(sum(a - b for a, b in _pairs(v))),
    "pairs in which the first is larger": lambda v: float(sum(a > b for a, b in _pairs(v))),
    "number of pairs": lambda v: float(len(_pairs(v))),
    "median ratio of pairs": lambda v: float(statistics.median(a / b for a, b in _pairs(v))),
    "geometric mean of the ratios of pairs": lambda v: statistics.geometric_mean(
        a / b for a, b in _pairs(v)
    ),
    "largest ratio of pairs": lambda v: max(a / b for a, b in _pairs(v)),
    "smallest ratio of pairs": lambda v: min(a / b for a, b in _pairs(v)),
}
