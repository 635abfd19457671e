"""The verdicts as the template needs them: the first screen's figures and tally, every claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from allocmark.claims.claim import Evidence, Headline, Judged, Ruling, decided, tally
from allocmark.claims.headlines import headlines
from allocmark.claims.text import Text
from allocmark.report.tables.document import filled
from allocmark.report.tables.verdicts import none_decided, on_little
from allocmark.report.webpage.words import markup
from allocmark.store.csv_text import number

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


def verdicts(judged: Sequence[Judged]) -> VerdictsView:
    """Return the view of all verdicts, in the order given."""
    counts = tally(judged)
    rulings = {
        ruling: RulingView(CSS[ruling], SIGNS[ruling], markup(ruling.words), count)
        for ruling, count in counts.items()
    }
    claims = tuple(_claim(one, rulings[one.verdict.ruling]) for one in judged)
    return VerdictsView(
        tuple(map(_headline, headlines(judged))) if judged else (),
        tuple(rulings.values()),
        claims,
        tuple(one for one in claims if one.ruling is rulings[Ruling.FAILS]),
        markup(on_little(judged)),
        markup(none_decided(judged) if judged and not decided(judged) else Text("", "")),
    )


def _headline(one: Headline) -> HeadlineView:
    cell, said = one.evidence.cell, one.evidence.said
    text = f"{said} ×" if cell.unit == "ratio" else said
    # A number is not parted from its unit at the end of a line.
    what = Text(one.what.en.replace(" %", "\u00a0%"), one.what.zh.replace(" %", "\u00a0%"))
    caution = None if one.caution is None else markup(one.caution)
    return HeadlineView(one.id, markup(what), text, number(cell.value), caution)


def _claim(one: Judged, ruling: RulingView) -> ClaimView:
    said = one.verdict.condition or one.verdict.reason
    return ClaimView(
        one.claim.id,
        one.claim.section,
        markup(one.claim.statement),
        ruling,
        markup(filled(one, said)),
        markup(filled(one, one.verdict.cause)),
        None if one.basis is None else markup(one.basis.words),
        one.claim.published,
        tuple(map(_figure, one.verdict.evidence)),
        one.commands,
    )


def _figure(one: Evidence) -> FigureView:
    return FigureView(markup(one.what), one.cell.text, number(one.cell.value), one.cell.unsettled)


def ruling_of(text: Text) -> Ruling | None:
    """Return the ruling that a cell of a document's table begins with, None for other cells."""
    starts = (r for r in sorted(Ruling, key=len, reverse=True) if text.en.startswith(r.value))
    return next(starts, None)
