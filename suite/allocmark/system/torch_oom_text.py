"""What torch's out-of-memory error tells: bytes that it has rounded to 0.01 of their unit."""

from __future__ import annotations

import re

from allocmark.system.units import GIB, KIB, MIB

_UNITS = {"bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_SIZE = r"(\d{1,15}(?:\.\d+)?) (bytes|KiB|MiB|GiB)"
_IN_USE = re.compile(rf"this process has {_SIZE} memory in use")
_ALLOCATED = re.compile(rf"{_SIZE} is allocated by PyTorch")
_RESERVED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_TOTAL = re.compile(rf"has a total capacity of {_SIZE}")
_ALLOWED = re.compile(rf"{_SIZE} allowed")


def total_bytes(text: str) -> int | None:
    """Return the card's, None where the text does not tell it."""
    return _bytes(_TOTAL, text)


def allowed_bytes(text: str) -> int | None:
    """Return what the process allowed itself, None where the text does not tell it."""
    return _bytes(_ALLOWED, text)


def outside_bytes(text: str) -> int | None:
    """Return what the process held outside torch's allocator, None where the text does not tell."""
    used, allocated, cached = (_bytes(p, text) for p in (_IN_USE, _ALLOCATED, _RESERVED))
    if used is None or allocated is None or cached is None:
        return None
    left = used - allocated - cached
    return left if left > 0 else None


def _bytes(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else round(float(match[1]) * _UNITS[match[2]])
