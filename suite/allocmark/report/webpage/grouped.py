"""The source document's tables: each cell of it with its figure and verdict in one cell."""

from __future__ import annotations

from markupsafe import Markup, escape

from allocmark.report.document_table import FIGURE, VERDICT
from allocmark.report.notes import Notes
from allocmark.report.translation import rendered
from allocmark.report.webpage.markup import html
from allocmark.report.webpage.verdicts import CSS, SIGNS, ruling_of
from allocmark.store.csv_text import number
from allocmark.store.table import Cell, Table
from allocmark.system.message import LANGUAGES, Text

_AFTER = (FIGURE, VERDICT)


def is_grouped(table: Table) -> bool:
    """Whether each column of a table, after the first, is followed by its figure and verdict."""
    rest = table.columns[1:]
    groups = [rest[i + 1 : i + 3] for i in range(0, len(rest), 3)]
    return bool(groups) and all(group == _AFTER for group in groups)


def headings(table: Table) -> tuple[Text, ...]:
    """Return the document's own columns."""
    return (table.columns[0], *table.columns[1::3])


def body(table: Table, notes: Notes) -> Markup:
    """Return the rows: what is said, the figure, the verdict, one below the other."""
    lines = []
    for first, *rest in table.rows:
        cells = [_cell(notes, *rest[i : i + 3]) for i in range(0, len(rest), 3)]
        lines.append(f"<tr><th scope=row>{html(first.text)}" + "".join(cells))
    return Markup("\n".join(lines))


def _cell(notes: Notes, words: Cell, figure: Cell, verdict: Cell) -> str:
    if not words.text:
        return "<td class=t>"
    return f"<td class=t><p>{html(words.text)}</p>{_figure(figure, notes)}{_verdict(verdict.text)}"


def _figure(cell: Cell, notes: Notes) -> str:
    if cell.value is not None:
        raw = number(cell.value)
        marks = notes.marks(cell)
        tail = f" <sup>{marks}</sup>" if marks else ""
        return f"<p class=fact><data value={raw} data-v={raw}>{html(cell.text)}</data>{tail}</p>"
    why = cell.reason or cell.text
    return f"<p class=about>{html(why)}</p>" if why else ""


def _verdict(text: Text) -> str:
    ruling = ruling_of(text)
    if ruling is None:
        return f"<p>{html(text)}</p>"
    rests = {
        language: escape(rendered(text, language)[len(rendered(ruling.words, language)) :])
        for language in LANGUAGES
    }
    more = "".join(
        f"<span lang={language}>{rest}</span>" for language, rest in rests.items() if rest
    )
    badge = f"<b class={CSS[ruling]}>{SIGNS[ruling]} {html(ruling.words)}</b>"
    return f"<p class=said>{badge}{more}</p>"
