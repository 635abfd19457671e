"""The source document's tables: each cell of it with its figure and verdict in one cell."""

from __future__ import annotations

from markupsafe import Markup, escape

from allocmark.report.notes import Notes
from allocmark.report.tables.document import FIGURE, VERDICT
from allocmark.report.webpage.verdicts import CSS, SIGNS, ruling_of
from allocmark.report.webpage.words import Words
from allocmark.store.csv_text import number
from allocmark.store.escape import visible
from allocmark.store.table import Cell, Table

_AFTER = (FIGURE.en, VERDICT.en)


def is_grouped(table: Table) -> bool:
    """Whether each column of a table, after the first, is followed by its figure and verdict."""
    rest = table.columns[1:]
    groups = [rest[i + 1 : i + 3] for i in range(0, len(rest), 3)]
    return bool(groups) and all(group == _AFTER for group in groups)


def headings(table: Table) -> tuple[str, ...]:
    """Return the document's own columns."""
    return (table.columns[0], *table.columns[1::3])


def body(table: Table, notes: Notes, words: Words) -> Markup:
    """Return the rows: what is said, the figure, the verdict, one below the other."""
    lines = []
    for first, *rest in table.rows:
        cells = [_said(notes, words, *rest[i : i + 3]) for i in range(0, len(rest), 3)]
        lines.append(f"<tr><th scope=row>{words.html(first.text)}" + "".join(cells))
    return Markup("\n".join(lines))


def _said(notes: Notes, words: Words, said: Cell, figure: Cell, verdict: Cell) -> str:
    if not said.text:
        return "<td class=t>"
    return f"<td class=t><p>{words.html(said.text)}</p>{_figure(figure, notes, words)}" + _verdict(
        verdict, words
    )


def _figure(cell: Cell, notes: Notes, words: Words) -> str:
    if cell.value is not None:
        raw = number(cell.value)
        marks = notes.marks(cell)
        tail = f" <sup>{marks}</sup>" if marks else ""
        return (
            f"<p class=fact><data value={raw} data-v={raw}>{words.html(cell.text)}</data>{tail}</p>"
        )
    why = cell.reason or cell.text
    return f"<p class=about>{words.html(why)}</p>" if why else ""


def _verdict(cell: Cell, words: Words) -> str:
    text = words.text(cell.text)
    ruling = ruling_of(text)
    if ruling is None:
        return f"<p>{words.html(cell.text)}</p>"
    rests = [
        escape(visible(whole[len(name) :]))
        for whole, name in ((text.en, ruling.words.en), (text.zh, ruling.words.zh))
    ]
    badge = words.html(ruling.value)
    more = f"<span lang=en>{rests[0]}</span><span lang=zh>{rests[1]}</span>" if rests[0] else ""
    return f"<p class=said><b class={CSS[ruling]}>{SIGNS[ruling]} {badge}</b>{more}</p>"
