"""The source document's tables: what it says, what was measured, the verdict, the command."""

from __future__ import annotations

from markupsafe import Markup, escape

from allocmark.report.document_table import COMMAND, DOCUMENT, FIGURE, STATEMENT, VERDICT
from allocmark.report.notes import Notes
from allocmark.report.translation import rendered
from allocmark.report.webpage.markup import html
from allocmark.report.webpage.verdicts import CSS, SIGNS, ruling_of
from allocmark.store.csv_text import number
from allocmark.store.table import Cell, Table
from allocmark.system.message import LANGUAGES, Text


def is_grouped(table: Table) -> bool:
    """Whether a table quotes the document."""
    return DOCUMENT in table.columns


def headings(table: Table) -> tuple[Text, ...]:
    """Return the columns; our words stand below the document's, in its column."""
    return tuple(column for column in table.columns if column != STATEMENT)


def body(table: Table, notes: Notes) -> Markup:
    """Return the rows."""
    lines = []
    for row in table.rows:
        cells = dict(zip(table.columns, row, strict=True))
        marked = [f"<th scope=row>{html(row[0].text)}"]
        marked += [
            # On a phone a row's cells stand below each other, each under its heading.
            f"<td class=t><span class=col>{html(name)}</span>{_cell(name, cells, notes)}"
            for name in headings(table)[1:]
        ]
        lines.append("<tr>" + "".join(marked))
    return Markup("\n".join(lines))


def _cell(column: Text, cells: dict[Text, Cell], notes: Notes) -> str:
    cell = cells[column]
    if column == DOCUMENT:
        # Not the page's Chinese, of which an English reader sees nothing.
        quoted = f"<p class=quote lang=zh-Hans>「{escape(cell.text)}」</p>"
        return f"{quoted}<p class=about>{html(cells[STATEMENT].text)}</p>"
    if column == FIGURE:
        return _figure(cell, notes)
    if column == VERDICT:
        return _verdict(cell.text)
    if column == COMMAND:
        return " ".join(f"<code>{escape(one)}</code>" for one in str(cell.text).split("; "))
    return f"<p>{html(cell.text)}</p>"


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
