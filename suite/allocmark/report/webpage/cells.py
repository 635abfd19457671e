"""A table's body as markup: short, because a page has tens of thousands of cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from allocmark.report.notes import Notes
from allocmark.report.webpage.markup import html
from allocmark.store.csv_text import number
from allocmark.store.number_text import RANGE
from allocmark.store.table import NOTHING, Cell
from allocmark.system.message import Message, Text


def body(rows: Iterable[Sequence[Cell]], labels: int, notes: Notes) -> Markup:
    """Return the rows of a table whose first `labels` columns name what a row is about.

    The raw value of a figure is in ``data-v``, as CSV has it.
    """
    lines = []
    for row in rows:
        cells = [_label(cell) for cell in row[:labels]]
        cells += [_cell(cell, notes) for cell in row[labels:]]
        lines.append("<tr>" + "".join(cells))
    return Markup("\n".join(lines))


def _label(cell: Cell) -> str:
    return f"<th scope=row>{html(cell.text)}"


def _cell(cell: Cell, notes: Notes) -> str:
    if cell.reason is not None:
        return f"<td class=n>n/a<sup>{notes.letter(cell)}</sup>"
    if cell.text == NOTHING:
        return f"<td class=n>{NOTHING}"
    if cell.value is None:
        # Options in a row have no space at which a line could end.
        text = re.sub(r",(?=\S)", ",<wbr>", html(cell.text))
        return f"<td class=t>{text}"
    marks = notes.marks(cell)
    tail = f" <sup>{marks}</sup>" if marks else ""
    return f"<td data-v={number(cell.value)}>{_printed(cell.text, tail)}"


def longest_line(cell: Cell, notes: Notes) -> str:
    """Return the longer line of a figure's cell: a range stands below its value."""
    if cell.reason is not None:
        return f"n/a{notes.letter(cell)}"
    if (parts := _range_parts(cell.text)) is not None:
        return max(*map(str, parts), key=len)
    return f"{cell.text} {notes.marks(cell)}".strip()


def _printed(text: Text, tail: str) -> str:
    """Return a figure's text; its range reads alike in both languages."""
    if (parts := _range_parts(text)) is not None:
        value, ends = parts
        return f"{html(value)}{tail}<small>{ends}</small>"
    return f"{html(text)}{tail}"


def _range_parts(text: Text) -> tuple[Text, str] | None:
    """Return a figure and its extremes, None for a text without these."""
    if not isinstance(text, Message) or text.id != RANGE.id:
        return None
    values = dict(text.values)
    return values["value"], "{low}–{high}; n = {count}".format_map(values)
