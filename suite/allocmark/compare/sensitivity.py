"""What the runs of a comparison can tell at all, by group of figures, and what would tell more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median

import scipy

from allocmark.compare.judging import LARGEST
from allocmark.compare.model import Comparison, Row
from allocmark.schema.intervals import CONFIDENCE

FOUND = 0.95
"""How often a step that matters is to be found."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far the figures of a group that are not exact can be told apart one by one.

    `half` is the half width of the interval of the figure in the middle, as a share: what such a
    figure differs by with nothing changed. `least` is what matters, `runs` how many runs a side
    would show that of a single figure 95 % of the time; None where these do already.
    """

    group: str
    figures: int
    unclear: int
    half: float
    least: float
    runs: int | None


def sensitivities(found: Comparison) -> list[Sensitivity]:
    """Return the sensitivity of each group with an unclear figure, the most unclear ones first."""
    groups: dict[str, list[Row]] = {}
    for row in found.rows:
        if not row.exact:
            groups.setdefault(row.group, []).append(row)
    runs = len(found.a.runs), len(found.b.runs)
    every = [_sensitivity(group, rows, runs) for group, rows in groups.items()]
    return sorted((s for s in every if s.unclear), key=lambda s: (-s.unclear, s.group))


def _sensitivity(group: str, rows: list[Row], runs: tuple[int, int]) -> Sensitivity:
    halves = [
        math.log(row.high / row.low) / 2 for row in rows if row.low and row.high and row.low > 0
    ]
    half = median(halves) if halves else 0.0
    least = median(row.least for row in rows)
    needed = None
    if least > 0:
        a, b = runs
        wanted = scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2) + scipy.stats.norm.ppf(FOUND)
        # The error of a difference is that of one run times the root of 1/a + 1/b.
        wide = half / float(scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2)) * float(wanted)
        count = math.ceil(2 * (wide / math.log1p(least)) ** 2 / (1 / a + 1 / b))
        needed = count if count > max(a, b) else None
    unclear = sum(row.verdict == "unclear" for row in rows)
    return Sensitivity(group, len(rows), unclear, math.expm1(min(half, LARGEST)), least, needed)
