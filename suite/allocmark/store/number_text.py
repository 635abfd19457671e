"""Numbers as people read them: three digits, a fitting unit, the interval in the same unit."""

from __future__ import annotations

import math
from dataclasses import dataclass

from allocmark.schema.flags import WIDE_SHARE
from allocmark.system.message import Joined, Message, Recorded, Text
from allocmark.system.units import GIB, KIB, MIB

DIGITS = 3
LOPSIDED = 2.0
"""How many times as wide as the other one side of an interval may be to be printed as ±."""
RANGE = Message("{value} ({low} to {high}; n {count})")
"""The message of a figure with its extremes."""

# In nanoseconds, so that whole ones stay whole.
_TIME_UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "seconds": 1e9}
_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
# MiB up to 10 GiB: context and segment sizes are compared in MiB, model sizes in GiB.
_SIZES = ((10 * GIB, GIB, "GiB"), (MIB, MIB, "MiB"), (KIB, KIB, "KiB"), (0, 1, "B"))
COUNTS = frozenset(
    {
        *("count", "calls", "segments", "retries", "failures", "event", "events", "runs"),
        *("processes", "threads"),
    }
)
"""Units that name what is counted, as the heading above the number does."""
_BARE = COUNTS | {"ratio", ""}
_RATE = "/s"
_RATES = (
    (1e6, Message("{number} million {unit}")),
    (1e3, Message("{number} thousand {unit}")),
    (1.0, Message("{number} {unit}")),
)
_SHARES = frozenset({"share", "fraction"})
UNIT_ENDINGS = frozenset({*_TIME_UNITS, "bytes", "count"})
"""What a metric's name may end in besides what it is."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit to print in: a printed number is the value divided by `factor`."""

    factor: float
    name: str
    words: Message | None = None
    """How number and unit are put together where that takes words."""


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
        factor, words = next((rate for rate in _RATES if size >= rate[0] * 0.9995), _RATES[-1])
        return Scale(factor, unit, words)
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
    return str(value_text(value, unit))


def value_text(value: float, unit: str) -> Text:
    """Return one number with its unit, see `format_value`."""
    scale = scale_of(value, unit)
    scaled = value / scale.factor
    decimals = 0 if scaled == int(scaled) else decimals_of(scaled)
    return _join(_fixed(scaled, decimals), scale)


def interval_text(value: float, low: float, high: float, unit: str) -> Text:
    """Return a median and its interval: ``746 ns ± 3``, or ``1.00 s [0.94, 1.73]``.

    The ± is the wider side. Of a wide interval whose one side is more than `LOPSIDED` times the
    other it would say too much of the narrow side, and both ends stand there.
    """
    if low == value == high:
        return _followed(value_text(value, unit), "± 0")
    scale = scale_of(value, unit)
    decimals = decimals_of(value / scale.factor)
    number = _join(_fixed(value / scale.factor, decimals), scale)
    below, above = (side / scale.factor for side in (value - low, high - value))
    wide = high - low > WIDE_SHARE * abs(value)
    if wide and max(below, above) > LOPSIDED * min(below, above):
        ends = (_fixed(end / scale.factor, decimals) for end in (low, high))
        return _followed(number, f"[{', '.join(ends)}]")
    return _followed(number, f"± {_spread(max(below, above), decimals)}")


def range_text(value: float, low: float, high: float, n: float, unit: str) -> Message:
    """Return a median, the extremes and the count: ``64.2 µs (61.0 to 80.1; n 30)``."""
    scale = scale_of(value, unit)
    decimals = decimals_of(value / scale.factor)
    least, most = (_fixed(end / scale.factor, decimals) for end in (low, high))
    number = _join(_fixed(value / scale.factor, decimals), scale)
    return RANGE.filled({"value": number, "low": least, "high": most, "count": f"{n:.0f}"})


def _followed(number: Text, interval: str) -> Text:
    # Of tens of thousands of cells nearly all are no more than a number.
    return f"{number} {interval}" if isinstance(number, str) else Joined(" ", (number, interval))


def _spread(spread: float, decimals: int) -> str:
    if 0 < spread < 0.5 * 10**-decimals:
        decimals = -math.floor(math.log10(spread))  # Its first digit: it is not nothing.
    return _fixed(spread, decimals)


def _fixed(scaled: float, decimals: int) -> str:
    return f"{scaled:,.{decimals}f}"


def _join(number: str, scale: Scale) -> Text:
    if scale.words is not None:
        return scale.words.filled({"number": number, "unit": Recorded(scale.name)})
    return f"{number} {scale.name}" if scale.name else number
