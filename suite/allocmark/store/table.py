"""A table as data: what every writer (Markdown, CSV, HTML) is given, and all it needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from allocmark.schema.flags import UNSETTLED
from allocmark.store.number_text import interval_text, range_text, value_text
from allocmark.system.message import Message, Recorded, Text

Style = Literal["median", "range"]
"""``median``: the value with its 95 % interval; ``range``: with its extremes and count."""


FLAG_SEPARATOR = ";"
"""Between the flags of a store row."""
NOTHING = "-"
"""What a cell shows that has nothing to be worked out of."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """What a number is of rows' values: a function of them, or of groups of `size` in their order.

    Where it is not `of_values` it follows from which rows there are, and has none of their flags.
    """

    function: Callable[[Any], float]
    size: int = 1
    of_values: bool = True

    def __call__(self, values: Sequence[float]) -> float:
        """Work the number out."""
        grouped = zip(*[iter(values)] * self.size, strict=True)
        return float(self.function(values if self.size == 1 else list(grouped)))


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a text for the reader, the number behind it, and where it comes from.

    `rows` are index labels of `Store.figures`. Without a `function` there is one, and the number is
    its value; else it is what that makes of the values of these rows, in their order.
    A cell without a number has a `reason`, or is a label.
    """

    text: Text
    value: float | None = None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    reason: Text | None = None
    flags: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    function: Derivation | None = None

    @property
    def unsettled(self) -> bool:
        """Whether the number, or one that it is worked out of, has not settled."""
        return not UNSETTLED.isdisjoint(self.flags)


@dataclass(frozen=True, slots=True)
class Table:
    """A titled grid with the conditions under which it holds; the id names its files."""

    id: str
    title: Text
    columns: tuple[Text, ...]
    rows: tuple[tuple[Cell, ...], ...]
    about: Text = ""
    """What the numbers are, in a sentence or two."""
    conditions: tuple[tuple[str, Text], ...] = ()
    emulated: bool = False
    whole: bool = False
    """Every row is drawn, even one that nothing was measured of."""
    leading: bool = False
    """It answers its section's question: the others stand behind it, folded."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.id}: a row has not as many cells as there are columns")


def label(text: Text) -> Cell:
    """Return a cell that names something."""
    return Cell(text)


def empty(reason: Text) -> Cell:
    """Return a cell that says why there is no number in it."""
    return Cell("", reason=reason)


def figure_text(row: Mapping[str, Any], style: Style) -> Text:
    """Return how the value of a store row is printed."""
    value, unit = row["value"], row["unit"]
    if style == "range" and row["n"] > 1:
        return range_text(value, row["minimum"], row["maximum"], row["n"], unit)
    if math.isnan(row["low"]):
        return value_text(value, unit)
    return interval_text(value, row["low"], row["high"], unit)


def figure(index: int, row: Mapping[str, Any], style: Style = "median") -> Cell:
    """Return the cell of one store row, which is a number or a reason."""
    if math.isnan(row["value"]):
        reason = row["reason"]
        why = Recorded(reason) if isinstance(reason, str) else Message("no reason")
        return Cell("", reason=why, rows=(index,))
    known = not math.isnan(row["low"])
    return Cell(
        figure_text(row, style),
        row["value"],
        row["unit"],
        row["low"] if known else None,
        row["high"] if known else None,
        flags=flags_of(row),
        rows=(index,),
    )


def flags_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the flags of a store row."""
    flags = row["flags"]
    return tuple(flags.split(FLAG_SEPARATOR)) if isinstance(flags, str) else ()


def inherited(flags: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the flags of what is worked out of figures with these flags: each of them once."""
    return tuple(dict.fromkeys(flag for own in flags for flag in own))


def span(cells: Sequence[Cell]) -> Cell:
    """Return by how much the figures of some cells differ at most, `NOTHING` for fewer than two."""
    known = [cell for cell in cells if cell.value is not None]
    values = [cell.value for cell in known if cell.value is not None]
    rows = tuple(index for cell in known for index in cell.rows)
    if not known[1:]:
        return Cell(NOTHING, rows=rows)
    value, unit = spread(values), known[0].unit
    flags = inherited(cell.flags for cell in known)
    made = Derivation(spread)
    return Cell(value_text(value, unit), value, unit, flags=flags, rows=rows, function=made)


def spread(values: Sequence[float]) -> float:
    """Return the largest less the smallest."""
    return max(values) - min(values)
