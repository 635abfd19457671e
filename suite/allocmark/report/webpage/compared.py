"""Other stacks beside the page's own, as the template needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from allocmark.compare.model import VERDICTS, Row
from allocmark.report.stacks import Other, OtherStackFigure, Stacks
from allocmark.report.webpage.markup import html
from allocmark.store.csv_text import number
from allocmark.store.number_text import format_value
from allocmark.system.message import Recorded

_SIGNS = {"same": "=", "better": "▲", "worse": "▼", "changed": "≠", "unclear": "?"}
_CSS = {"same": "open", "better": "holds", "worse": "fails", "changed": "partly", "unclear": "open"}
_MANYFOLD = 10.0
"""From here on a ratio says more than percents do."""


@dataclass(frozen=True, slots=True)
class VerdictView:
    """A verdict on one figure, or how many figures have it."""

    css: str
    sign: str
    words: Markup
    count: int = 0


@dataclass(frozen=True, slots=True)
class CellView:
    """One figure of another stack: how it reads, its raw value, by how much it differs."""

    text: str
    raw: str
    ratio: str
    interval: str
    verdict: VerdictView | None
    reason: Markup


@dataclass(frozen=True, slots=True)
class OtherView:
    """The head of a column: counts of verdicts, and what must be known first."""

    label: str
    counts: tuple[VerdictView, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LineView:
    """One figure over all stacks."""

    place: str
    own: str
    raw: str
    cells: tuple[CellView, ...]


@dataclass(frozen=True, slots=True)
class ComparedView:
    """The section."""

    label: str
    others: tuple[OtherView, ...]
    means: tuple[tuple[Markup, tuple[str, ...]], ...]
    """Each group of figures with the geometric mean of its change, by stack."""
    lines: tuple[LineView, ...]
    left_out: tuple[str, ...]


def compared(found: Stacks) -> ComparedView:
    """Return the view of a comparison."""
    return ComparedView(
        found.label,
        tuple(_other(other) for other in found.others),
        _means(found.others),
        tuple(_line(found, place) for place in found.places),
        found.left_out,
    )


def _other(other: Other) -> OtherView:
    if other.found is None:
        return OtherView(other.label, (), (other.reason,))
    counted = other.found.counted()
    counts = tuple(_verdict(verdict, counted[verdict]) for verdict in VERDICTS)
    return OtherView(other.label, counts, other.found.warnings)


def _means(others: Sequence[Other]) -> tuple[tuple[Markup, tuple[str, ...]], ...]:
    found: dict[str, dict[int, str]] = {}
    for at, other in enumerate(others):
        for mean in other.found.means if other.found else ():
            if mean.scope == "all":
                found.setdefault(mean.group, {})[at] = _change(mean.ratio)
    return tuple(
        (html(Recorded(group)), tuple(by.get(n, "–") for n in range(len(others))))
        for group, by in sorted(found.items())
    )


def _line(found: Stacks, place: str) -> LineView:
    figures = [found.cells[place, number] for number in range(len(found.others))]
    own = next(one.row for one in figures if one.row is not None)
    cells = tuple(map(_cell, figures))
    return LineView(place, format_value(own.a, own.unit), number(own.a), cells)


def _cell(one: OtherStackFigure) -> CellView:
    row = one.row
    if row is None:
        return CellView("", "", "", "", None, html(Recorded(one.reason)))
    return CellView(
        format_value(row.b, row.unit),
        number(row.b),
        "" if row.ratio is None else _change(row.ratio),
        _interval(row),
        _verdict(row.verdict),
        Markup(""),
    )


def _interval(row: Row) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{_change(row.low)} … {_change(row.high)}"


def _change(ratio: float) -> str:
    return f"×{ratio:.3g}" if ratio >= _MANYFOLD else f"{100 * (ratio - 1):+.1f} %"


def _verdict(verdict: str, count: int = 0) -> VerdictView:
    return VerdictView(_CSS[verdict], _SIGNS[verdict], html(Recorded(verdict)), count)
