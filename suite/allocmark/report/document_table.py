"""The source document's own tables, in its order: each cell with its figure and verdict."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from allocmark.claims.core.claim import Evidence, Judgement, Ruling
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Text, sentences

_CLAUSES = Path(__file__).with_name("locale") / "document.json"
_EXPLAINED = (Ruling.IN_PART, Ruling.FAILS, Ruling.UNDECIDED)
"""Verdicts that a reader wants to know more of at once."""
DOCUMENT, STATEMENT = Message("document"), Message("in our words")
FIGURE, VERDICT, COMMAND = Message("measured"), Message("verdict"), Message("command")


@dataclass(frozen=True, slots=True)
class ClaimCell:
    """A cell of the document: what it says in our words, whose claim, and the figure to show."""

    words: Text
    claim: str
    figure: str


DocumentRow = tuple[Text, Sequence[ClaimCell]]
_ABOUT = Message("≈ or †: not settled.")


def statements(*cells: tuple[Text, Text, str, str]) -> list[DocumentRow]:
    """Return rows of one cell each: what it is about, then the fields of a `ClaimCell`."""
    return [(first, [ClaimCell(words, claim, name)]) for first, words, claim, name in cells]


@dataclass(frozen=True, slots=True)
class DocumentTable:
    """A table of the document, with a row for each of its cells: what the cell is about, a clause
    of it, the same in our words, the figure, the verdict, the command.

    `columns` are the document's. A figure that is not there has the verdict's reason.
    """

    name: str
    title: Text
    columns: tuple[Text, ...]
    rows: Sequence[DocumentRow]
    about: Text = ""

    def made(self, panel: Panel, judged: Sequence[Judgement]) -> Table:
        """Return the table with these verdicts."""
        by_id = {one.claim.id: one for one in judged}
        explained: set[str] = set()
        lines = []
        for first, cells in self.rows:
            for column, cell in zip(self.columns[1:], cells, strict=False):
                one = by_id[cell.claim]
                named = Message("{name}: {text}", name=first, text=column)
                about = named if cells[1:] else first
                lines.append(
                    (
                        *(label(about), label(quoted(cell.claim, cell.figure)), label(cell.words)),
                        *figure_and_verdict(one, cell.figure, cell.claim not in explained),
                        command(one),
                    )
                )
                explained.add(cell.claim)
        headings = (self.columns[0], DOCUMENT, STATEMENT, FIGURE, VERDICT, COMMAND)
        about = sentences(self.about, _ABOUT)
        return Table(f"document-{self.name}", self.title, headings, tuple(lines), about)


def quoted(claim: str, figure: str) -> str:
    """Return the clause of the document, which is in Chinese, that a claim is of; where that has
    two sides, of the one that the figure belongs to."""
    clauses = _clauses()
    return clauses.get(f"{claim}.{figure}") or clauses[claim]


@cache
def _clauses() -> dict[str, str]:
    found: dict[str, str] = json.loads(_CLAUSES.read_text(encoding="utf-8"))
    return found


def command(judged: Judgement) -> Cell:
    """Return the commands that measure what decides a claim; its own row has them to the letter."""
    experiments = judged.claim.experiments
    return label("; ".join(f"allocmark run --experiment {name}" for name in experiments))


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
