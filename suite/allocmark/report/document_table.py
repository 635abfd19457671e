"""The source document's own tables, in its order: each cell with its figure and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from allocmark.claims.core.claim import Evidence, Judgement, Ruling
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Text

_EXPLAINED = (Ruling.IN_PART, Ruling.FAILS, Ruling.UNDECIDED)
"""Verdicts that a reader wants to know more of at once."""
FIGURE, VERDICT = Message("figure"), Message("verdict")


@dataclass(frozen=True, slots=True)
class ClaimCell:
    """A cell of the document: what it says in our words, whose claim, and the figure to show."""

    words: Text
    claim: str
    figure: str


DocumentRow = tuple[Text, Sequence[ClaimCell]]
STATEMENT = Message("statement")
_ABOUT = Message(
    "What the source document says, in our words, each followed by its figure and verdict. "
    "≈ or †: not settled."
)


def statements(*cells: tuple[Text, Text, str, str]) -> list[DocumentRow]:
    """Return rows of one cell each: what it is about, what is said, the claim, the figure."""
    return [(first, [ClaimCell(words, claim, name)]) for first, words, claim, name in cells]


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """A table of the document: a heading for each row, then each cell, figure, verdict.

    `columns` are the document's. A figure that is not there has the verdict's reason.
    """

    name: str
    title: Text
    columns: tuple[Text, ...]
    rows: Sequence[DocumentRow]

    def made(self, panel: Panel, judged: Sequence[Judgement]) -> Table:
        """Return the table with these verdicts."""
        by_id = {one.claim.id: one for one in judged}
        headings = [self.columns[0]]
        for column in self.columns[1:]:
            headings += [column, FIGURE, VERDICT]
        lines = []
        for first, cells in self.rows:
            line = [label(first)]
            explained: set[str] = set()
            for cell in cells:
                line += _cells(by_id[cell.claim], cell, cell.claim not in explained)
                explained.add(cell.claim)
            line += [label("")] * (len(headings) - len(line))
            lines.append(tuple(line))
        return Table(f"document-{self.name}", self.title, tuple(headings), tuple(lines), _ABOUT)


def _cells(judged: Judgement, cell: ClaimCell, explained: bool) -> list[Cell]:
    """Return what is said, its figure and verdict."""
    return [label(cell.words), *figure_and_verdict(judged, cell.figure, explained)]


def figure_and_verdict(judged: Judgement, name: str, explained: bool = True) -> tuple[Cell, Cell]:
    """Return a figure of a verdict, or why there is none, and the verdict: why, and on how little,
    where `explained`."""
    verdict = judged.verdict
    found = verdict.find(name)
    if found is not None:
        shown = figure(found)
    elif verdict.reason:
        shown = empty(verdict.filled(verdict.reason))
    else:
        shown = label("")
    words: Text = verdict.ruling.words
    if explained and verdict.ruling in _EXPLAINED and verdict.condition:
        words = Message("{what}: {text}", what=words, text=verdict.filled(verdict.condition))
    if explained and judged.caution is not None:
        words = Message("{text} ({caution})", text=words, caution=judged.caution)
    return shown, label(words)


def figure(evidence: Evidence) -> Cell:
    """Return a figure with what it is."""
    text = Message("{what}: {text}", what=evidence.what, text=evidence.cell.text)
    return replace(evidence.cell, text=text)
