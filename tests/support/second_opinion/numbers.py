"""Numbers in a sentence, each with its unit and as many places as were printed."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(
    r"(?<![\w.#/-])≈?(\d+(?:,\d{3})*(?:\.\d+)?)(?:\s?(KiB|MiB|GiB|TiB|B|%|ns|µs|ms|s))?(?![\w-])"
)
_UNITS = {
    "": 1.0, "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    "%": 0.01, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip


@dataclass(frozen=True)
class Number:
    """A number as printed: its value in bytes, seconds, or as a share, and half its last place."""

    text: str
    value: float
    half: float

    def is_near(self, other: float) -> bool:
        """Whether that is printed so."""
        return abs(self.value - other) <= 1.02 * self.half + 1e-9 * abs(other)


def numbers(sentence: str) -> list[Number]:
    """Return all of a sentence, in their order."""
    found = []
    for match in _NUMBER.finditer(sentence):
        digits, unit = match[1].replace(",", ""), _UNITS[match[2] or ""]
        places = len(digits.partition(".")[2])
        found.append(Number(match[0], float(digits) * unit, 0.5 * 10.0**-places * unit))
    return found
