"""The verdicts as the template needs them: the first screen's figures and tally, every claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from allocmark.claims import catalog
from allocmark.claims.core.claim import (
    Evidence,
    Headline,
    Judgement,
    Ruling,
    count_rulings,
    decided,
)
from allocmark.report.tables.verdicts import none_decided, on_little
from allocmark.report.webpage.markup import html
from allocmark.store.csv_text import number
from allocmark.system.message import Text

CSS = {
    Ruling.HOLDS: "holds",
    Ruling.IN_PART: "partly",
    Ruling.FAILS: "fails",
    Ruling.NOT_MEASURED: "open",
}
"""The style's name for each ruling."""
SIGNS = {Ruling.HOLDS: "✓", Ruling.IN_PART: "◐", Ruling.FAILS: "✗", Ruling.NOT_MEASURED: "–"}
"""What tells rulings apart without colour."""


@dataclass(frozen=True, slots=True)
class FigureView:
    """One figure: what it is, how it reads, the raw value, whether it has not settled."""

    what: Markup
    text: str
    raw: str
    unsettled: bool


@dataclass(frozen=True, slots=True)
class HeadlineView:
    """A card of the first screen: the claim that it leads to, the figure, what that is.

    `caution` says on how little it rests, None where that is enough.
    """

    claim: str
    what: Markup
    text: str
    raw: str
    caution: Markup | None


@dataclass(frozen=True, slots=True)
class RulingView:
    """One of the four rulings and how many statements have it."""

    css: str
    sign: str
    words: Markup
    count: int


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A statement with its verdict and what that rests on."""

    id: str
    section: str
    statement: Markup
    ruling: RulingView
    condition: Markup
    cause: Markup
    basis: Markup | None
    published: tuple[str, ...]
    figures: tuple[FigureView, ...]
    commands: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerdictsView:
    """All of it."""

    headlines: tuple[HeadlineView, ...]
    tally: tuple[RulingView, ...]
    claims: tuple[ClaimView, ...]
    wrong: tuple[ClaimView, ...]
    """The statements that do not hold."""
    on_little: Markup
    """How many verdicts rest on little, nothing where none does."""
    none: Markup
    """What is said instead of the tally where no statement is decided."""


def verdicts(judged: Sequence[Judgement]) -> VerdictsView:
    """Return the view of all verdicts, in the order given."""
    counts = count_rulings(judged)
    rulings = {
        ruling: RulingView(CSS[ruling], SIGNS[ruling], html(ruling.words), count)
        for ruling, count in counts.items()
    }
    claims = tuple(_claim(one, rulings[one.verdict.ruling]) for one in judged)
    return VerdictsView(
        tuple(map(_headline, catalog.headlines(judged))) if judged else (),
        tuple(rulings.values()),
        claims,
        tuple(one for one in claims if one.ruling is rulings[Ruling.FAILS]),
        html(on_little(judged)),
        html(none_decided(judged) if judged and not decided(judged) else ""),
    )


def _headline(one: Headline) -> HeadlineView:
    cell = one.evidence.cell
    figure = one.evidence.marked
    return HeadlineView(
        claim=one.id,
        # A number is not parted from its unit at the end of a line.
        what=Markup(html(one.what).replace(" %", "\u00a0%")),
        text=f"{figure} ×" if cell.unit == "ratio" else figure,
        raw=number(cell.value),
        caution=None if one.caution is None else html(one.caution),
    )


def _claim(one: Judgement, ruling: RulingView) -> ClaimView:
    verdict = one.verdict
    return ClaimView(
        id=one.claim.id,
        section=one.claim.section,
        statement=html(one.claim.statement),
        ruling=ruling,
        condition=html(verdict.filled(verdict.condition or verdict.reason)),
        cause=html(verdict.filled(verdict.cause)),
        basis=None if one.basis is None else html(one.basis.words),
        published=one.claim.published,
        figures=tuple(map(_figure, verdict.evidence)),
        commands=one.commands,
    )


def _figure(one: Evidence) -> FigureView:
    text = str(one.cell.text)
    return FigureView(html(one.what), text, number(one.cell.value), one.cell.unsettled)


def ruling_of(text: Text) -> Ruling | None:
    """Return the ruling that a cell of a document's table begins with, None for other cells."""
    starts = (r for r in sorted(Ruling, key=len, reverse=True) if str(text).startswith(r.value))
    return next(starts, None)
