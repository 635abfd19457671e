"""Every text that a page shows, and what of it nobody has translated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape

from allocmark.report.disturbed import disturbed
from allocmark.report.notes import Notes, apart
from allocmark.report.page import Page, Part
from allocmark.report.plots.catalog import pictures
from allocmark.report.translation import catalog, recognized
from allocmark.report.webpage.first import stack_lines
from allocmark.store.table import Table
from allocmark.system.message import Joined, Message, Recorded, Text

_UNITS = "B|[KMGT]iB|ns|µs|ms|s|n|W|MHz"
_NEUTRAL = re.compile(rf"[\W\d_]*((?:e[+-]\d+|{_UNITS})(?![a-zA-Z])[\W\d_]*)*")
"""Numbers with units, versions: alike in every language."""
_QUOTED = re.compile(r"\w+Error: ")
"""What a framework raised, in its words."""
_NAMES = ("subject", "workload", "call", "counter", "probe", "metric", "meter", "way")
"""Columns of the store whose values are names."""


def of_page(shown: Page) -> Iterator[Text]:
    """Yield what a page says of its parts."""
    yield from (shown.title, *shown.left_out)


def of_part(part: Part, drawn: bool = True) -> Iterator[Text]:
    """Yield all that is said of a part, its pictures' too if they are `drawn`."""
    yield from (part.title, *part.facts, disturbed(part.panel))
    shown = stack_lines(part)
    for view in shown.runs:
        yield from (view.kind, view.date, *view.run.host)
    yield from (title for title, _ in shown.fields)
    for section in part.sections:
        yield section.title
        for table in section.tables:
            yield from of_table(table)
    for one in part.judged:
        yield from (evidence.what for evidence in one.verdict.evidence)
    for card in part.headlines:
        yield card.what
    for picture in pictures(part.panel) if drawn else ():
        yield from (picture.title, picture.about, picture.section, *picture.words)
        words = {str(word) for word in (picture.title, *picture.words)}
        drawn_texts = map(unescape, re.findall(r"<text\b[^>]*>([^<]*)</text>", picture.svg))
        yield from (Recorded(text) for text in drawn_texts if text not in words)


def of_table(table: Table) -> Iterator[Text]:
    """Yield all that is said in a table and below it."""
    yield from (table.title, table.about, *table.columns)
    for name, text in table.conditions:
        yield from (Recorded(name), text)
    for row in table.rows:
        for cell in row:
            yield from (cell.text, cell.reason or "")
    drawn, absent = apart(table)
    for _, text in Notes(drawn.rows).flag_texts():
        yield text
    for one in absent:
        yield from (one.names, one.reason)


def names(part: Part) -> set[str]:
    """Return what of a record is a name: alike in every language."""
    rows = part.panel.rows
    found = {str(v) for c in _NAMES if c in rows for v in rows[c].dropna().unique()}
    tables = [table for section in part.sections for table in section.tables]
    # What a machine or a framework says of itself.
    held = (text for table in tables for _, text in table.conditions)
    return found.union(*map(recorded, held))


def recorded(text: Text) -> set[str]:
    """Return what of a text a record holds."""
    if isinstance(text, Recorded):
        return {text.text}
    if isinstance(text, Message):
        return set().union(*(recorded(value) for _, value in text.values))
    return set().union(*map(recorded, text.parts)) if isinstance(text, Joined) else set()


def untranslated(texts: Iterable[Text], known: Iterable[str] = ()) -> list[str]:
    """Return ids without a translation, and sentences of a record that are neither recognized,
    nor numbers, nor `known`."""
    kept = set(known)
    return sorted({leaf for text in set(texts) for leaf in _unknown(text, kept)})


def _unknown(text: Text, known: set[str]) -> Iterator[str]:
    if isinstance(text, Message):
        if text.id not in catalog()["messages"]:
            yield text.id
        for _, value in text.values:
            yield from _unknown(value, known)
    elif isinstance(text, Joined):
        for part in (text.between, *text.parts):
            yield from _unknown(part, known)
    elif isinstance(text, Recorded) and not _is_known(text.text, known):
        yield text.text


def _is_known(text: str, known: set[str]) -> bool:
    if recognized(text) is not None or text in known or known.issuperset(text.split(", ")):
        return True
    return _NEUTRAL.fullmatch(text) is not None or _QUOTED.match(text) is not None
