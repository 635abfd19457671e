"""Tables as CSV, for machines: numbers unrounded in the unit of the record. Knows no table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from allocmark.store.escape import csv_text
from allocmark.store.table import Cell, Table


def table(shown: Table) -> str:
    """Return the table: each column of numbers is followed by those of what belongs to them.

    ``<name>`` holds the value, ``<name>: unit`` its unit, ``: low`` and ``: high`` the 95 %
    interval, ``: note`` flags or the reason for an empty cell; the last three only where any
    cell has one.
    """
    columns = [_columns(shown, i) for i in range(len(shown.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_text(name) for part in columns for name, _ in part])
    for row in shown.rows:
        parts = zip(columns, row, strict=True)
        writer.writerow([read(cell) for part, cell in parts for _, read in part])
    return out.getvalue()


def _columns(shown: Table, index: int) -> list[tuple[str, Callable[[Cell], str]]]:
    name = str(shown.columns[index])
    cells = [row[index] for row in shown.rows]
    if all(cell.value is None and cell.reason is None for cell in cells):
        return [(name, lambda cell: csv_text(str(cell.text)))]
    parts: list[tuple[str, Callable[[Cell], str]]] = [
        (name, lambda cell: number(cell.value)),
        (f"{name}: unit", lambda cell: csv_text(cell.unit)),
    ]
    if any(cell.low is not None for cell in cells):
        parts += [
            (f"{name}: low", lambda cell: number(cell.low)),
            (f"{name}: high", lambda cell: number(cell.high)),
        ]
    if any(cell.reason is not None or cell.flags for cell in cells):
        parts.append((f"{name}: note", lambda cell: csv_text(_note(cell))))
    return parts


def _note(cell: Cell) -> str:
    return " ".join(cell.flags) if cell.reason is None else str(cell.reason)


def number(value: float | None) -> str:
    """Return a number unrounded, as short as it goes; nothing for None."""
    if value is None:
        return ""
    return str(int(value)) if value == int(value) else repr(float(value))
