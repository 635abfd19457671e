"""The verdicts as the template needs them: the first screen's figures and tally, every claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from allocmark.report.key_figure import key_figure
from allocmark.report.tables.verdicts import none_decided, on_little
from allocmark.report.webpage.markup import html
from allocmark.store.csv_text import number
from allocmark.system.message import Text

CSS = {
    Ruling.HOLDS: "holds",
    Ruling.IN_PART: "partly",
    Ruling.FAILS: "fails",
    Ruling.UNDECIDED: "undecided",
    Ruling.NOT_MEASURED: "open",
}
"""The style's name for each ruling."""
SIGNS = {
    Ruling.HOLDS: "✓",
    Ruling.IN_PART: "◐",
    Ruling.FAILS: "✗",
    Ruling.UNDECIDED: "?",
    Ruling.NOT_MEASURED: "–",
}
"""What tells rulings apart without colour."""


@dataclass(frozen=True, slots=True)
class HeadlineView:
    """A card of the first screen: the claim that it leads to, the figure, what that is.

    `caution` says on how little it rests, None where that is enough.
    """

    claim: str
    what: Markup
    text: str
    raw: str
    caution: Text | None


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A row of the verdicts: what was judged, and the figure that stands in the row."""

    judged: Judgement
    key: Evidence | None


@dataclass(frozen=True, slots=True)
class VerdictsView:
    """All of it, in the order given.

    `on_little` says how many verdicts have limited evidence, nothing where none has; `none` what is
    said instead of the tally where no statement is decided.
    """

    headlines: tuple[HeadlineView, ...]
    tally: Mapping[Ruling, int]
    claims: Sequence[ClaimView]
    wrong: Sequence[Judgement]
    on_little: Text
    none: Text


def verdicts(judged: Sequence[Judgement]) -> VerdictsView:
    """Return the view of all verdicts."""
    return VerdictsView(
        headlines=tuple(map(_headline, catalog.headlines(judged))) if judged else (),
        tally=count_rulings(judged),
        claims=[ClaimView(one, key_figure(one)) for one in judged],
        wrong=[one for one in judged if one.verdict.ruling is Ruling.FAILS],
        on_little=on_little(judged),
        none=none_decided(judged) if judged and not decided(judged) else "",
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
        caution=one.caution,
    )


def ruling_of(text: Text) -> Ruling | None:
    """Return the ruling that a cell of a document's table begins with, None for other cells."""
    starts = (r for r in sorted(Ruling, key=len, reverse=True) if str(text).startswith(r.value))
    return next(starts, None)
