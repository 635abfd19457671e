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


def _triples(values: Values) -> list[tuple[float, float, float]]:
    return list(zip(values[::3], values[1::3], values[2::3], strict=True))


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


def _signs(values: Values, above: float) -> tuple[int, int, int]:
    """Return hits, false alarms and misses of a sign: pairs of completed and the sign's figure."""
    pairs = _pairs(values)
    hits = sum(done == 0 and sign > above for done, sign in pairs)
    alarms = sum(done != 0 and sign > above for done, sign in pairs)
    misses = sum(done == 0 and sign <= above for done, sign in pairs)
    return hits, alarms, misses


def _precision(values: Values, above: float) -> float:
    hits, alarms, _ = _signs(values, above)
    return hits / (hits + alarms)


def _recall(values: Values, above: float) -> float:
    hits, _, misses = _signs(values, above)
    return hits / (hits + misses)


def _f1(values: Values, above: float) -> float:
    hits, alarms, misses = _signs(values, above)
    return 2 * hits / (2 * hits + alarms + misses) if hits else 0.0


def _shown(values: Values, above: float) -> float:
    hits, alarms, _ = _signs(values, above)
    return float(hits + alarms)


def _enough(values: Values) -> float:
    """Return in what share of triples the first two together reach the third."""
    triples = _triples(values)
    return sum(a + b >= c for a, b, c in triples) / len(triples)


def _either(values: Values, first: float, second: float) -> float:
    pairs = _pairs(values)
    return sum(a > first or b > second for a, b in pairs) / len(pairs)


def _in_one_piece(values: Values) -> list[float]:
    """Return the first over what the second has beyond the third, of each triple.

    Where that is nothing, it is in one piece.
    """
    return [a / (b - c) if b != c else 1.0 for a, b, c in _triples(values)]


def _smaller_pieces(values: Values) -> float:
    return float(sum(a < b for a, b in _pairs(_in_one_piece(values))))


OF_PLACES = frozenset({"axis of the row", "count", "number of pairs", "number of triples"})
"""Those whose result does not depend on the values, only on which rows there are."""

FUNCTIONS: dict[str, Callable[..., float]] = {
    "ratio": _ratio,
    "ratio times a given number": lambda values, given: _ratio(values) * given,
    "difference": _change,
    "over a given number": lambda values, given: _value(values) / given,
    "less a given number": lambda values, given: _value(values) - given,
    "axis of the row": lambda values, given: given,
    "largest less smallest": lambda values: max(values) - min(values),
    "sum": lambda values: float(sum(values)),
    "count": lambda values: float(len(values)),
    "median": lambda values: float(statistics.median(values)),
    "smallest": min,
    "largest": max,
    "share of zeros": lambda values: sum(v == 0 for v in values) / len(values),
    "number of zeros": lambda values: float(sum(v == 0 for v in values)),
    "precision of the sign": _precision,
    "recall of the sign": _recall,
    "F1 of the sign": _f1,
    "runs with the sign": _shown,
    "median of first less second": lambda v: float(statistics.median(a - b for a, b in _pairs(v))),
    "share in which the first two reach the third": _enough,
    "share of pairs in which either exceeds its number": _either,
    "share above zero": lambda values: sum(v > 0 for v in values) / len(values),
    "number above zero": lambda values: float(sum(v > 0 for v in values)),
    "one less the sum of the first over the sum of the second": lambda v: 1 - _sum_ratio(v),
    "one less second over first": lambda v: 1 - v[1] / v[0],
    "sum of the first over sum of the second": _sum_ratio,
    "sum of the second less the first": lambda v: float(sum(b - a for a, b in _pairs(v))),
    "pairs in which the first is larger": lambda v: float(sum(a > b for a, b in _pairs(v))),
    "largest difference of pairs": lambda v: max(abs(a - b) for a, b in _pairs(v)),
    "largest of first less the other three": lambda v: max(
        abs(first - sum(v[i + 1 : i + 4])) for i, first in list(enumerate(v))[::4]
    ),
    "median of the first over the second less the third": lambda v: float(
        statistics.median(_in_one_piece(v))
    ),
    "groups of six in which the first three have the smaller share in one piece": _smaller_pieces,
    "triples in which the first exceeds the second less the third": lambda v: float(
        sum(a > b - c for a, b, c in _triples(v))
    ),
    "number of triples": lambda v: float(len(_triples(v))),
    "largest ratio of the first to the second less the third": lambda v: max(
        a / (b - c) for a, b, c in _triples(v)
    ),
    "number of pairs": lambda v: float(len(_pairs(v))),
    "median ratio of pairs": lambda v: float(statistics.median(a / b for a, b in _pairs(v))),
    "geometric mean of the ratios of pairs": lambda v: statistics.geometric_mean(
        a / b for a, b in _pairs(v)
    ),
    "largest ratio of pairs": lambda v: max(a / b for a, b in _pairs(v)),
    "smallest ratio of pairs": lambda v: min(a / b for a, b in _pairs(v)),
}
