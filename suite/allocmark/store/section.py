"""How the tables of a part of the page are made: rows of one probe laid out, with conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from allocmark.store.cell_conditions import conditions
from allocmark.store.grid import Key, grid
from allocmark.store.panel import Panel
from allocmark.store.table import Style, Table, span

Where = Mapping[str, str | float | Sequence[str]]
"""What rows must say: a column's value, or one of several."""


def median(row: Mapping[str, Any]) -> Style:
    """Print the median and its interval."""
    return "median"


def select(panel: Panel, probe: str, where: Where) -> pd.DataFrame:
    """Return the rows of a probe that say what they must; none where an axis does not occur."""
    rows = panel.figures(probe)
    for column, wanted in where.items():
        allowed = [wanted] if isinstance(wanted, str | float) else list(wanted)
        rows = rows[rows[column].isin(allowed)] if column in rows else rows.iloc[:0]
    return rows


def values(panel: Panel, probe: str, axis: str) -> list[str]:
    """Return the values of a text axis that occur, in order."""
    rows = panel.figures(probe)
    return sorted(map(str, rows[axis].dropna().unique())) if axis in rows else []


def make(
    panel: Panel,
    probe: str,
    where: Where,
    *,
    down: Sequence[Key],
    across: Key,
    name: str,
    title: str,
    about: str = "",
    style: Callable[[Mapping[str, Any]], Style] = median,
    mark_meters: bool = False,
    absent: str = "",
) -> Table | None:
    """Return the table of the rows `where` selects, None where there are none.

    `absent` is why there is no figure for a cell, where that is known better than by the panel.
    """
    rows = select(panel, probe, where)
    if rows.empty:
        return None
    laid_out = grid(
        rows,
        down,
        across,
        style=style,
        gap=lambda place: absent or panel.gap(probe, place),
        mark_meters=mark_meters,
    )
    return Table(
        f"{probe}-{name}",
        title,
        laid_out.columns,
        laid_out.rows,
        about,
        conditions(panel.store, rows),
        panel.emulated,
    )


def with_span(table: Table, heading: str) -> Table:
    """Return the table with a last column: by how much the figures of a row differ."""
    figures = [
        i
        for i in range(len(table.columns))
        if any(row[i].value is not None or row[i].reason is not None for row in table.rows)
    ]
    if not figures[1:]:
        return table
    rows = tuple((*row, span([row[i] for i in figures])) for row in table.rows)
    return replace(table, columns=(*table.columns, heading), rows=rows)
