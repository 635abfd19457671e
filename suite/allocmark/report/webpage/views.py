"""What the template is given: parts, sections and tables, with their markup made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from allocmark.claims.text import Text
from allocmark.report.notes import Absent, Notes, apart, is_figure
from allocmark.report.page import Section
from allocmark.report.pictures import Picture
from allocmark.report.webpage import cells, columns, grouped, layout, sharing
from allocmark.report.webpage.payload import packed
from allocmark.report.webpage.svg import inline
from allocmark.report.webpage.words import Words, markup
from allocmark.store import csv_text
from allocmark.store.table import Cell, Table


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
    words: Words,
) -> SectionView:
    """Return the view of a section."""
    views = [table_view(table, anchors[table.id], common, words) for table in shown.tables]
    full = [one for one in views if one.body]
    leading = [one for one in full if shown.texts or layout.leads(one.id)] or full[:1]
    return SectionView(
        layout.anchor(shown.title),
        words.html(shown.title),
        tuple(picture_view(one, words) for one in pictures),
        tuple(leading),
        tuple(one for one in full if one not in leading),
        tuple(one for one in views if not one.body),
    )


def table_view(
    table: Table, identifier: str, common: sharing.Conditions, words: Words
) -> TableView:
    """Return the view of a table."""
    drawn, absent = apart(table)
    rows = drawn.rows
    notes = Notes(rows)
    labels = _leading_labels(drawn)
    widths = _widths(drawn, labels, rows, notes, words)
    waiting = () if table.whole else columns.hidden(labels, widths)
    body = cells.body(rows, labels, notes, words)
    headings = [
        Column(words.html(name), "num" if any(is_figure(row[i]) for row in rows) else "")
        for i, name in enumerate(drawn.columns)
    ]
    if in_groups := grouped.is_grouped(table):
        # Its cells say themselves why they are empty.
        notes = Notes([cell for cell in row if cell.reason is None] for row in rows)
        waiting, body = (), grouped.body(table, notes, words)
        headings = [Column(words.html(name), "") for name in grouped.headings(table)]
    return TableView(
        identifier,
        words.html(table.title),
        words.html(table.about),
        table.emulated,
        tuple(headings),
        in_groups,
        tuple(position + 1 for position in waiting),
        body,
        len(rows),
        tuple((mark, words.html(text)) for mark, text in notes.flag_texts()),
        tuple((letter, words.html(reason)) for reason, letter in notes.reasons.items()),
        tuple(_absent(one, words) for one in absent),
        bool(table.conditions),
        tuple((words.html(name), words.free(text)) for name, text in sharing.own(table, common)),
        f"{identifier}.csv",
        packed(csv_text.table(table)),
    )


def picture_view(picture: Picture, words: Words) -> PictureView:
    """Return the view of a picture."""
    identifier = layout.anchor(f"figure-{picture.id}")
    return PictureView(
        identifier,
        words.html(picture.title),
        words.html(picture.about),
        inline(picture, words, f"{identifier}-title"),
        f"{identifier}.csv",
        packed(picture.csv),
    )


def _absent(one: Absent, words: Words) -> tuple[Markup, Markup]:
    owners = [words.row(first, others) for first, others in one.owners]
    names = Text("; ".join(o.en for o in owners), "；".join(o.zh for o in owners))
    return markup(names), words.html(one.reason)


def _widths(
    table: Table, labels: int, rows: Sequence[Sequence[Cell]], notes: Notes, words: Words
) -> list[float]:
    """Return about how wide each column is, in whichever language takes more."""
    widths = [columns.heading_width(heading) for heading in table.columns]
    for row in rows:
        for position, cell in enumerate(row):
            if is_figure(cell):
                taken = columns.width(cells.longest_line(cell, notes))
            else:
                text = words.text(cell.text)
                taken = max(columns.width(text.en), columns.width(text.zh))
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
