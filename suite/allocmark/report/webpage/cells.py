"""A table's body as markup: short, because a page has tens of thousands of cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from markupsafe import Markup, escape

from allocmark.report.notes import Notes
from allocmark.report.webpage.words import Words
from allocmark.store.csv_text import number
from allocmark.store.escape import visible
from allocmark.store.table import NOTHING, Cell

_RANGE = re.compile(r"(.*) \(([\d.,]+) to ([\d.,]+); n (\d+)\)")
_RATE = re.compile(r"^([\d.,]+) (million|thousand)( .*|)$")


def body(rows: Iterable[Sequence[Cell]], labels: int, notes: Notes, words: Words) -> Markup:
    """Return the rows of a table whose first `labels` columns name what a row is about.

    The raw value of a figure is in ``data-v``, as CSV has it.
    """
    lines = []
    for row in rows:
        cells = [_label(cell, words) for cell in row[:labels]]
        cells += [_cell(cell, notes, words) for cell in row[labels:]]
        lines.append("<tr>" + "".join(cells))
    return Markup("\n".join(lines))


def _label(cell: Cell, words: Words) -> str:
    return f"<th scope=row>{words.html(cell.text)}"


def _cell(cell: Cell, notes: Notes, words: Words) -> str:
    if cell.reason is not None:
        return f"<td class=n>n/a<sup>{notes.letter(cell)}</sup>"
    if cell.text == NOTHING:
        return f"<td class=n>{NOTHING}"
    if cell.value is None:
        # Options in a row have no space at which a line could end.
        text = re.sub(r",(?=\S)", ",<wbr>", words.html(cell.text))
        return f"<td class=t>{text}"
    marks = notes.marks(cell)
    tail = f" <sup>{marks}</sup>" if marks else ""
    return f"<td data-v={number(cell.value)}>{_printed(cell.text, tail, words)}"


def longest_line(cell: Cell, notes: Notes) -> str:
    """Return the longer line of a figure's cell: a range stands below its value."""
    if cell.reason is not None:
        return f"n/a{notes.letter(cell)}"
    first = f"{cell.text} {notes.marks(cell)}".strip()
    if match := _RANGE.fullmatch(cell.text):
        return max(first.partition(" (")[0], _range(match), key=len)
    return first


def _printed(text: str, tail: str, words: Words) -> str:
    """Return a figure's text so that it reads alike in both languages, where it can."""
    if match := _RANGE.fullmatch(text):
        return f"{escape(match[1])}{tail}<small>{_range(match)}</small>"
    told = words.html(text) if _RATE.match(text) or not _plain(text) else escape(text)
    return f"{told}{tail}"


def _range(match: re.Match[str]) -> str:
    _, low, high, count = match.groups()
    return f"{low}–{high}; n = {count}"


@lru_cache(maxsize=65536)
def _plain(text: str) -> bool:
    """Whether a printed figure holds no word that needs translating."""
    return re.search(r"[A-Za-z]{4,}", visible(text)) is None
