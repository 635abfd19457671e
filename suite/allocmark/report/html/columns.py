"""Which columns of a wide table are shown at first: enough to see the course of a row."""

from __future__ import annotations

from collections.abc import Sequence

MOST = 7
"""Columns of figures that fit on a page beside the labels."""


def hidden(labels: int, columns: Sequence[str]) -> tuple[int, ...]:
    """Return the positions, from 0, that wait for the reader to ask: none of a narrow table.

    The first `labels` columns stay; of the rest `MOST` are kept, evenly spread with both ends.
    """
    figures = len(columns) - labels
    if figures <= MOST + 1:  # To hide one column alone would not pay.
        return ()
    kept = {labels + round(i * (figures - 1) / (MOST - 1)) for i in range(MOST)}
    return tuple(i for i in range(labels, len(columns)) if i not in kept)
