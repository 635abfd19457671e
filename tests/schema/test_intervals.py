"""Medians, their intervals and flags."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.schema.flags import WIDE_INTERVAL
from allocmark.schema.intervals import (
    CONFIDENCE,
    histogram,
    median_interval,
    sampled_figure,
)

# Critical values of the sign test, two-sided at 5 %, by sample size: M. F. Triola, Elementary
# Statistics, table A-7 (to 25), and W. J. Dixon and A. M. Mood, The statistical sign test, JASA 41
# (1946), table 1 (above). The interval runs from the (c+1)-th smallest to the (c+1)-th largest.
CRITICAL = {
    6: 0, 7: 0, 8: 0, 9: 1, 10: 1, 11: 1, 12: 2, 13: 2, 14: 2, 15: 3, 16: 3, 17: 4, 18: 4, 19: 4,
    20: 5, 21: 5, 22: 5, 23: 6, 24: 6, 25: 7, 30: 9, 40: 13, 50: 17, 60: 21, 100: 39,
}  # fmt: skip


@pytest.mark.parametrize(("n", "critical"), CRITICAL.items())
def test_interval_ranks_equal_the_published_ones(n: int, critical: int) -> None:
    assert median_interval(np.arange(1, n + 1)) == (critical + 1, n - critical)


@pytest.mark.parametrize("n", range(6))
def test_five_samples_or_fewer_have_no_interval(n: int) -> None:
    assert median_interval([1.0] * n) is None


def test_interval_does_not_depend_on_the_order_of_samples() -> None:
    samples = np.random.default_rng(1).normal(size=99)
    assert median_interval(samples) == median_interval(np.sort(samples)[::-1])


@pytest.mark.parametrize("n", [6, 10, 30, 101])
def test_interval_covers_the_median_as_often_as_it_says(n: int) -> None:
    # Skewed on purpose: the method assumes no shape. ln 2 is the median of the distribution.
    rng = np.random.default_rng(n)
    trials = 2000
    inside = 0
    for _ in range(trials):
        interval = median_interval(rng.exponential(size=n))
        assert interval is not None
        inside += interval[0] <= np.log(2) <= interval[1]
    slack = 3 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / trials)
    assert inside / trials >= CONFIDENCE - slack


@given(st.lists(st.floats(-1e12, 1e12), min_size=6, max_size=60))
def test_interval_holds_the_median_and_lies_within_the_samples(samples: list[float]) -> None:
    interval = median_interval(samples)
    assert interval is not None
    assert min(samples) <= interval[0] <= float(np.median(samples)) <= interval[1] <= max(samples)


def test_a_settled_figure_has_no_flag() -> None:
    made = sampled_figure("pair_ns", "ns", "time", "loop", {}, [100.0, 101.0] * 10)
    assert made.value == 100.5
    assert made.interval == (100.0, 101.0)
    assert made.flags == ()


def test_an_interval_over_five_per_cent_is_flagged() -> None:
    made = sampled_figure("pair_ns", "ns", "time", "loop", {}, [100.0, 106.0] * 10)
    assert made.flags == (WIDE_INTERVAL,)


def test_few_differing_samples_are_flagged_and_equal_ones_are_not() -> None:
    assert sampled_figure("a_ns", "ns", "time", "loop", {}, [1.0, 2.0]).flags == (WIDE_INTERVAL,)
    assert sampled_figure("a_bytes", "bytes", "exact", "loop", {}, [7.0] * 3).flags == ()


@given(st.lists(st.integers(0, 9), min_size=1))
def test_histogram_loses_nothing(samples: list[int]) -> None:
    values, counts = histogram(samples)
    assert np.repeat(values, counts).tolist() == sorted(samples)
