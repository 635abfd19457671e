"""Numbers as people read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.store.number_text import format_value, interval_text, range_text
from allocmark.system.units import GIB, MIB


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (746.2, "ns", "746 ns"),
        (0.0, "ns", "0 ns"),
        (2.345, "ns", "2.35 ns"),
        (999.4, "ns", "999 ns"),
        (999.9, "ns", "1.00 µs"),
        (64_000, "ns", "64 µs"),
        (3_120_000, "ns", "3.12 ms"),
        (1.9, "seconds", "1.90 s"),
        (0.0005, "s", "500 µs"),
        (125.4, "s", "125 s"),
        (512, "bytes", "512 B"),
        (20 * MIB, "bytes", "20 MiB"),
        (527.3 * MIB, "bytes", "527 MiB"),
        (1258 * MIB, "bytes", "1,258 MiB"),
        (10 * GIB, "bytes", "10 GiB"),
        (141.25 * GIB, "bytes", "141 GiB"),
        (12345, "calls", "12,345"),
        (0.0734, "ratio", "0.0734"),
        (0.433, "share", "43.3 %"),
        (1, "share", "100 %"),
        (2.5e6, "pairs/s", "2.50 million pairs/s"),
    ],
)
def test_three_digits_in_a_fitting_unit(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (746.2, 743.0, 748.0, "746 ns ± 3"),
        (2.345, 2.335, 2.365, "2.35 ns ± 0.02"),
        (64_000, 63_900, 64_010, "64.0 µs ± 0.1"),
        (64_000, 63_999, 64_001, "64.0 µs ± 0.001"),
        (64_000, 64_000, 64_000, "64 µs ± 0"),
        # The ± of the wider side would claim 0.27 s, or less than nothing, for the low end.
        (1.0e9, 0.935e9, 1.733e9, "1.00 s [0.94, 1.73]"),
        (100e6, 97e6, 213e6, "100 ms [97, 213]"),
        (300, 150, 305, "300 ns [150, 305]"),
        (300, 290, 320.4, "300 ns [290, 320]"),
        (300, 290, 320, "300 ns ± 20"),
        (300, 299, 310, "300 ns ± 10"),  # Within 5 %: settled, whichever side.
    ],
)
def test_the_interval_has_the_unit_of_its_median(
    value: float, low: float, high: float, text: str
) -> None:
    assert interval_text(value, low, high, "ns") == text


def test_extremes_have_the_unit_of_the_median() -> None:
    assert str(range_text(64_200, 940, 1_080_000, 30, "ns")) == "64.2 µs (0.9 to 1,080.0; n 30)"


_FACTORS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "B": 1, "KiB": 1024, "MiB": MIB, "GiB": GIB}


@given(st.floats(1e-3, 1e14), st.sampled_from(["ns", "bytes"]))
def test_a_printed_number_is_within_half_a_per_cent_of_the_value(value: float, unit: str) -> None:
    match = re.fullmatch(r"([\d,.]+) (\S+)", format_value(value, unit))
    assert match is not None
    assert float(match[1].replace(",", "")) * _FACTORS[match[2]] == pytest.approx(value, rel=0.005)
