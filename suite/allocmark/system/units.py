"""Byte counts: the binary units the suite speaks, read and written."""

from __future__ import annotations

import math
import re

from allocmark.system.errors import AllocmarkError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_FACTORS = {"": 1, "B": 1, "K": KIB, "KIB": KIB, "M": MIB, "MIB": MIB, "G": GIB, "GIB": GIB}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Return the bytes that ``24GiB``, ``512 MiB`` or ``4096`` stand for.

    Raises `AllocmarkError` for anything else, decimal units (GB) included: drivers and
    frameworks count in powers of two, and a silent 7 % is worse than a refusal.
    """
    match = _SIZE.fullmatch(text)
    factor = _FACTORS.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise AllocmarkError(f"{text!r} is not a size: write bytes, KiB, MiB or GiB, as in 24GiB")
    return round(float(match[1]) * factor)


def format_bytes(count: float) -> str:
    """Return a short text, exact where the count is a whole number of its unit."""
    for factor, unit in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(count) >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
    return f"{count:.0f} B"


def format_need(count: float) -> str:
    """Return a short text of bytes that are needed: never less than they are.

    Hundredths of a GiB, so that 4.01 GiB are not said to fit a card of 4.
    """
    for factor, unit, parts in ((GIB, "GiB", 100), (MIB, "MiB", 1), (KIB, "KiB", 1)):
        if count >= factor:
            value = math.ceil(count / factor * parts) / parts
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.2f} {unit}"
    return f"{math.ceil(count)} B"


def format_count(count: int, noun: str, nouns: str = "") -> str:
    """Return a count with its noun: ``1 segment``, ``2 segments``; `nouns` where no -s makes it."""
    return f"{count} {noun if count == 1 else nouns or noun + 's'}"
