"""Numbers as people read them: three digits, a fitting unit, the interval in the same unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from allocmark.system.units import GIB, KIB, MIB

DIGITS = 3

# In nanoseconds, so that whole ones stay whole.
_TIME_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "seconds": 1e9}
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
# MiB up to 10 GiB: context and segment sizes are compared in MiB, model sizes in GiB.
_SIZES = ((10 * GIB, GIB, "GiB"), (MIB, MIB, "MiB"), (KIB, KIB, "KiB"), (0, 1, "B"))
COUNTS = frozenset(
    {
        "count",
        "calls",
        "segments",
        "retries",
        "failures",
        "event",
        "events",
        "runs",
        "processes",
        "threads",
    }
)
"""Units that name what is counted, as the heading above the number does."""
_BARE = COUNTS | {"ratio", ""}
_RATE = "/s"
_RATES = ((1e6, "million "), (1e3, "thousand "), (1.0, ""))
_SHARES = frozenset({"share", "fraction"})
UNIT_ENDINGS = frozenset({*_TIME_UNITS, "bytes", "count"})
"""What a metric's name may end in besides what it is."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit to print in: a printed number is the value divided by `factor`."""

    factor: float
    name: str


def scale_of(value: float, unit: str) -> Scale:
    """Return the unit that suits a value measured in `unit`."""
    size = abs(value)
    if unit in _TIME_UNITS:
        # What rounds to 1000 of a unit is 1 of the next.
        nanoseconds = size * _TIME_UNITS[unit] / 0.9995
        factor, name = next(((f, n) for f, n in _TIMES if nanoseconds >= f), _TIMES[-1])
        return Scale(factor / _TIME_UNITS[unit], name)
    if unit == "bytes":
        return next(Scale(factor, name) for least, factor, name in _SIZES if size >= least)
    if unit.endswith(_RATE):
        factor, prefix = next(((f, p) for f, p in _RATES if size >= f * 0.9995), _RATES[-1])
        return Scale(factor, f"{prefix}{unit}")
    if unit in _SHARES:
        return Scale(0.01, "%")
    return Scale(1.0, "" if unit in _BARE else unit)


def decimals_of(scaled: float) -> int:
    """Return how many decimals show `DIGITS` digits of a number, never cutting whole ones."""
    rounded = float(f"{scaled:.{DIGITS - 1}e}")
    if rounded == 0 or not math.isfinite(rounded):
        return 0
    return max(0, DIGITS - 1 - math.floor(math.log10(abs(rounded))))


def format_value(value: float, unit: str) -> str:
    """Return one number with its unit: ``746 ns``, ``1,258 MiB``, ``43 %``."""
    scale = scale_of(value, unit)
    scaled = value / scale.factor
    decimals = 0 if scaled == int(scaled) else decimals_of(scaled)
    return _join(_fixed(scaled, decimals), scale.name)


def format_interval(value: float, low: float, high: float, unit: str) -> str:
    """Return a median and its interval: ``746 ns ± 3``, the ± being the wider side."""
    if low == value == high:
        return f"{format_value(value, unit)} ± 0"
    scale = scale_of(value, unit)
    decimals = decimals_of(value / scale.factor)
    number = _join(_fixed(value / scale.factor, decimals), scale.name)
    return f"{number} ± {_spread(value, low, high, scale, decimals)}"


def format_range(value: float, low: float, high: float, n: float, unit: str) -> str:
    """Return a median, the extremes and the count: ``64.2 µs (61.0 to 80.1; n 30)``."""
    scale = scale_of(value, unit)
    decimals = decimals_of(value / scale.factor)
    ends = (_fixed(end / scale.factor, decimals) for end in (low, high))
    number = _join(_fixed(value / scale.factor, decimals), scale.name)
    return f"{number} ({' to '.join(ends)}; n {n:.0f})"


def _spread(value: float, low: float, high: float, scale: Scale, decimals: int) -> str:
    spread = max(value - low, high - value) / scale.factor
    if 0 < spread < 0.5 * 10**-decimals:
        decimals = -math.floor(math.log10(spread))  # Its first digit: it is not nothing.
    return _fixed(spread, decimals)


def _fixed(scaled: float, decimals: int) -> str:
    return f"{scaled:,.{decimals}f}"


def _join(number: str, unit: str) -> str:
    return f"{number} {unit}" if unit else number
