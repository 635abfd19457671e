"""Which columns of a wide table are shown at first: as many as fit on a page, evenly spread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

PAGE_WIDTH = 1180.0
"""Of the box of a table in a window 1280 wide, in CSS pixels."""
LEAST = 2
"""The ends of a row are shown in any case."""
_THIN, _LATIN, _WIDE = 4.4, 8.3, 13.2
"""Of a letter in pixels: those of a wide font, so that narrower ones have room."""
_THIN_LETTERS = frozenset(" .,;:!'|()-ijlt")
_PADDING = 15.0
_BOLD = 1.12
_BREAK = re.compile(r"\s+|(?<=-)")
WRAPPED = 185.0
"""Of a text that is broken into lines."""


@lru_cache(maxsize=65536)
def width(text: str) -> float:
    """Return about how many pixels a cell takes that holds this text on one line."""
    wide = sum(letter > "\u2e80" for letter in text)
    thin = sum(letter in _THIN_LETTERS for letter in text)
    return _WIDE * wide + _THIN * thin + _LATIN * (len(text) - wide - thin) + _PADDING


def heading_width(text: str) -> float:
    """Return about how many pixels a heading takes, which is bold and may be broken at spaces and
    after hyphens."""
    return _BOLD * max(map(width, _BREAK.split(text)))


def hidden(labels: int, widths: Sequence[float]) -> tuple[int, ...]:
    """Return the positions, from 0, that wait for the reader to ask: none where all fit.

    The first `labels` columns stay; of the rest as many are kept as `widths` allows, evenly
    spread with both ends.
    """
    figures = len(widths) - labels
    for count in range(figures, LEAST - 1, -1):
        kept = _spread(labels, figures, count)
        if count == LEAST or sum(widths[:labels]) + sum(widths[i] for i in kept) <= PAGE_WIDTH:
            return tuple(i for i in range(labels, len(widths)) if i not in kept)
    return ()


def _spread(labels: int, figures: int, count: int) -> set[int]:
    return {labels + round(i * (figures - 1) / (count - 1)) for i in range(count)}
