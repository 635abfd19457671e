"""The rank test for many figures at once: the same as for one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from allocmark.compare.pairing import Run
from allocmark.compare.rank_test import LEVEL, overlapping
from allocmark.schema.figure import Figure


def _side(samples: list[float], value: float | None = None) -> dict[Run, Figure]:
    middle = float(np.median(samples)) if value is None else value
    return {Run("s", "r"): Figure("call_ns", "ns", "time", "loop", {}, middle, samples)}


def test_many_couples_are_told_as_each_by_itself() -> None:
    generator = np.random.default_rng(1)
    couples, expected = [], []
    for number in range(60):
        size = int(generator.choice([7, 12, 30]))
        a, b = (generator.normal(100, 1, size), generator.normal(100 + number % 4 / 2, 1, size))
        if number % 3 == 0:
            a, b = a.round(), b.round()  # Ties: the test is another one.
        couples.append((_side(a.tolist()), _side(b.tolist()), 0.0))
        if size <= 20 and number % 3:
            expected.append(mannwhitneyu(a, b, method="exact").pvalue > LEVEL)
        else:
            expected.append(mannwhitneyu(a, b, method="asymptotic").pvalue > LEVEL)
    assert overlapping(couples) == expected
    assert {True, False} == set(expected)


@pytest.mark.parametrize("case", ["few", "fastest", "none"])
def test_what_ranks_cannot_tell_does_not_overlap(case: str) -> None:
    count = 3 if case == "few" else 10
    samples = [float(n) for n in range(count)]
    side = _side(samples, 0.0 if case == "fastest" else None)
    if case == "none":
        side = {Run("s", "r"): Figure("call_ns", "ns", "time", "loop", {}, 4.5)}
    assert overlapping([(side, side, 0.0)]) == [False]


def test_what_the_whole_process_moved_by_is_taken_off() -> None:
    a, b = ([factor * n for n in range(100, 130)] for factor in (1.0, 2.0))
    couple = _side(a), _side(b)
    assert overlapping([(*couple, 0.0), (*couple, float(np.log(2)))]) == [False, True]
