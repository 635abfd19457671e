"""What the template is given: parts, sections and tables, with their markup made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from allocmark.report import sharing
from allocmark.report.notes import Notes, apart, is_figure
from allocmark.report.page import Section
from allocmark.report.plots.drawing import Picture
from allocmark.report.translation import rendered
from allocmark.report.webpage import cells, columns, grouped, layout
from allocmark.report.webpage.markup import html
from allocmark.report.webpage.payload import packed
from allocmark.report.webpage.svg import inline
from allocmark.store import csv_text
from allocmark.store.table import Cell, Table
from allocmark.system.message import LANGUAGES, Recorded


@dataclass(frozen=True, slots=True)
class Column:
    """One column's heading; `css` says whether it holds numbers and whether it waits."""

    heading: Markup
    css: str


@dataclass(frozen=True, slots=True)
class TableView:
    """A table as the template needs it; `body` is empty where no row has any figure.

    `grouped` is for tables of the document, whose cells are paragraphs.
    """

    id: str
    title: Markup
    about: Markup
    emulated: bool
    columns: tuple[Column, ...]
    grouped: bool
    hidden: tuple[int, ...]
    """Positions, from 1, of the columns that are shown on demand."""
    body: Markup
    rows: int
    flags: tuple[tuple[str, Markup], ...]
    reasons: tuple[tuple[str, Markup], ...]
    absent: tuple[tuple[Markup, Markup], ...]
    conditioned: bool
    """Whether anything was measured for it, under some conditions."""
    own: tuple[tuple[Markup, Markup], ...]
    numbered: tuple[tuple[Markup, int], ...]
    """Conditions that several tables share: the name of each, and its number among these."""
    csv_name: str
    csv: Markup


@dataclass(frozen=True, slots=True)
class PictureView:
    """A picture as the template needs it."""

    id: str
    title: Markup
    about: Markup
    svg: Markup
    csv_name: str
    csv: Markup


@dataclass(frozen=True, slots=True)
class SectionView:
    """A question: its pictures and leading tables, and the tables that stand behind them."""

    id: str
    title: Markup
    pictures: tuple[PictureView, ...]
    leading: tuple[TableView, ...]
    further: tuple[TableView, ...]
    empty: tuple[TableView, ...]
    """Tables without any figure: one line each, which names the reason."""


def section(
    shown: Section,
    pictures: Iterable[Picture],
    anchors: Mapping[str, str],
    common: sharing.Conditions,
    once: sharing.Conditions,
) -> SectionView:
    """Return the view of a section."""
    views = [(table, table_view(table, anchors[table.id], common, once)) for table in shown.tables]
    full = [view for _, view in views if view.body]
    leading = [view for table, view in views if view.body and table.leading] or full[:1]
    return SectionView(
        id=layout.anchor(shown.title),
        title=html(shown.title),
        pictures=tuple(map(picture_view, pictures)),
        leading=tuple(leading),
        further=tuple(view for view in full if view not in leading),
        empty=tuple(view for _, view in views if not view.body),
    )


def table_view(
    table: Table, identifier: str, common: sharing.Conditions, once: sharing.Conditions
) -> TableView:
    """Return the view of a table, without the conditions that are `common` or said `once`."""
    drawn, absent = apart(table)
    rows = drawn.rows
    notes = Notes(rows)
    labels = _leading_labels(drawn)
    widths = _widths(drawn, labels, rows, notes)
    waiting = () if table.whole else columns.hidden(labels, widths)
    body = cells.body(rows, labels, notes)
    headings = [
        Column(html(name), "num" if any(is_figure(row[i]) for row in rows) else "")
        for i, name in enumerate(drawn.columns)
    ]
    if in_groups := grouped.is_grouped(table):
        # Its cells say themselves why they are empty.
        notes = Notes([cell for cell in row if cell.reason is None] for row in rows)
        waiting, body = (), grouped.body(table, notes)
        headings = [Column(html(name), "") for name in grouped.headings(table)]
    own = sharing.own(table, common)
    return TableView(
        id=identifier,
        title=html(table.title),
        about=html(table.about),
        emulated=table.emulated,
        columns=tuple(headings),
        grouped=in_groups,
        hidden=tuple(position + 1 for position in waiting),
        body=body,
        rows=len(rows),
        flags=tuple((mark, html(text)) for mark, text in notes.flag_texts()),
        reasons=tuple((letter, html(reason)) for reason, letter in notes.reasons.items()),
        absent=tuple((html(one.names), html(one.reason)) for one in absent),
        conditioned=bool(table.conditions),
        own=tuple(
            (html(Recorded(name)), html(text)) for name, text in own if (name, text) not in once
        ),
        numbered=tuple(
            (html(Recorded(name)), once.index((name, text)) + 1)
            for name, text in own
            if (name, text) in once
        ),
        csv_name=f"{identifier}.csv",
        csv=packed(csv_text.table(table)),
    )


def picture_view(picture: Picture) -> PictureView:
    """Return the view of a picture."""
    identifier = layout.anchor(f"figure-{picture.id}")
    return PictureView(
        id=identifier,
        title=html(picture.title),
        about=html(picture.about),
        svg=inline(picture, f"{identifier}-title"),
        csv_name=f"{identifier}.csv",
        csv=packed(picture.csv),
    )


def _widths(table: Table, labels: int, rows: Sequence[Sequence[Cell]], notes: Notes) -> list[float]:
    """Return about how wide each column is, in whichever language takes more."""
    widths = [columns.heading_width(str(heading)) for heading in table.columns]
    for row in rows:
        for position, cell in enumerate(row):
            if is_figure(cell):
                taken = columns.width(cells.longest_line(cell, notes))
            else:
                taken = max(columns.width(rendered(cell.text, each)) for each in LANGUAGES)
                # Only what a row is about stays on one line.
                taken = taken if position < labels else min(taken, columns.WRAPPED)
            widths[position] = max(widths[position], taken)
    return widths


def _leading_labels(table: Table) -> int:
    """Return how many columns at the left name what a row is about; at least one."""
    for position, column in enumerate(zip(*table.rows, strict=True)):
        if any(map(is_figure, column)):
            return max(1, position)
    return 1
