"""The source document's own tables, in its order: each cell with its figure and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from allocmark.claims.claim import Evidence, Judged, Ruling
from allocmark.claims.text import Text
from allocmark.store.table import Cell, Table, empty, label

_EXPLAINED = (Ruling.IN_PART, Ruling.FAILS)
"""Verdicts that a reader wants to know more of at once."""
FIGURE, VERDICT = Text("figure", "数值"), Text("verdict", "结论")


@dataclass
class Said:
    """Turns texts into cells, and remembers them in both languages."""

    texts: list[Text] = field(default_factory=list)

    def __call__(self, text: Text) -> Cell:
        """Return the cell of a text."""
        return label(self.name(text))

    def name(self, text: Text) -> str:
        """Return a text as the tables hold it, in English."""
        self.texts.append(text)
        return text.en


@dataclass(frozen=True, slots=True)
class Stated:
    """A cell of the document: what it says in our words, whose claim, and the figure to show."""

    words: Text
    claim: str
    figure: str


Row = tuple[Text, Sequence[Stated]]


def stated_table(
    judged: Sequence[Judged],
    said: Said,
    *,
    name: str,
    title: Text,
    columns: Sequence[Text],
    rows: Sequence[Row],
    about: Text,
    emulated: bool,
) -> Table:
    """Return a table of the document: a heading for each row, then each cell, figure, verdict.

    `columns` are the document's. A figure that is not there has the verdict's reason.
    """
    by_id = {one.claim.id: one for one in judged}
    headings = [columns[0]]
    for column in columns[1:]:
        headings += [column, FIGURE, VERDICT]
    lines = []
    for first, stated in rows:
        line = [said(first)]
        told: set[str] = set()
        for one in stated:
            line += _cells(by_id[one.claim], one, said, one.claim not in told)
            told.add(one.claim)
        line += [label("")] * (len(headings) - len(line))
        lines.append(tuple(line))
    return Table(
        f"document-{name}",
        said.name(title),
        tuple(said.name(heading) for heading in headings),
        tuple(lines),
        said.name(about),
        emulated=emulated,
        whole=True,
    )


def _cells(judged: Judged, stated: Stated, said: Said, explained: bool) -> list[Cell]:
    """Return what is said, its figure and verdict; why, and on how little, where `explained`."""
    verdict = judged.verdict
    found = next((one for one in verdict.evidence if one.name == stated.figure), None)
    if found is not None:
        shown = figure(found, said)
    elif verdict.reason is not None:
        shown = empty(said.name(filled(judged, verdict.reason)))
    else:
        shown = label("")
    words = verdict.ruling.words
    if explained and verdict.ruling in _EXPLAINED and verdict.condition is not None:
        condition = filled(judged, verdict.condition)
        words = Text(f"{words.en}: {condition.en}", f"{words.zh}：{condition.zh}")
    if explained and (few := judged.caution) is not None:
        words = Text(f"{words.en} ({few.en})", f"{words.zh}（{few.zh}）")
    return [said(stated.words), shown, said(words)]


def filled(judged: Judged, text: Text | None) -> Text:
    """Return one of a verdict's sentences with its figures, in both languages."""
    return Text(judged.verdict.say(text, "en"), judged.verdict.say(text, "zh"))


def figure(evidence: Evidence, said: Said) -> Cell:
    """Return a figure with what it is."""
    cell = evidence.cell
    what = evidence.what
    text = said.name(Text(f"{what.en}: {cell.text}", f"{what.zh}：{cell.text}"))
    return replace(cell, text=text)
