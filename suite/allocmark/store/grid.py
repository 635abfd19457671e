"""Rows of the store laid out as a grid: some axes down, one across, a figure in each cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from allocmark import allocators
from allocmark.store.frame_columns import NUMBER_COLUMNS, SCALED
from allocmark.store.number_text import UNIT_ENDINGS
from allocmark.store.table import Cell, Style, empty, figure, label
from allocmark.system.message import Message, Recorded, Text
from allocmark.system.units import KIB, format_bytes, parse_bytes

NOT_MEASURED = Message("not part of this run")
READ_BY = "read by "
"""How the flag of a figure begins that another meter read than most of its metric."""
_ROUND = KIB
"""Sizes on an axis are round but for a step of less."""

_NO_AXES = {
    *("document", "machine", "stack", "profile", "run", "emulated"),
    *(*NUMBER_COLUMNS, SCALED, "unit", "kind", "reason", "flags"),
}


def plain(value: object) -> Text:
    """Return an axis value as text; what an axis lacks is an empty cell."""
    if _lacking(value):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return Message("yes") if value else Message("no")
    return Recorded(str(value))


def size(value: object) -> str:
    """Return an axis of bytes as text."""
    if _lacking(value) or not isinstance(value, int | float):
        return ""
    text = format_bytes(value)
    rest = value % _ROUND
    if rest and parse_bytes(text) != value:
        # One step beyond a round size is another size: an allocator may treat it otherwise.
        return f"{format_bytes(value - rest)} + {format_bytes(rest)}"
    return text


def metric_title(value: object) -> Text:
    """Return a metric's name without its unit: every cell says its own."""
    words = str(value).split("_")
    kept = words[:-1] if len(words) > 1 and words[-1] in UNIT_ENDINGS else words
    return Recorded(" ".join(kept))


@dataclass(frozen=True, slots=True)
class Key:
    """A column of the store used as an axis of a grid; its heading is its name where none is given.

    `order` lists values that come first, in that order; numbers follow by size, and texts as they
    occur: probes report in an order that means something.
    """

    column: str
    named: Text = ""
    show: Callable[[object], Text] = plain
    order: tuple[str, ...] = ()

    @property
    def heading(self) -> Text:
        """What stands above the column."""
        return self.named or Recorded(self.column.replace("_", " "))

    def rank(self, value: object) -> tuple[int, float, str]:
        """Return what to sort by."""
        if value in self.order:
            return (0, float(self.order.index(str(value))), "")
        if isinstance(value, int | float) and not _lacking(value):
            return (1, float(value), "")
        return (2, 0.0, "" if _lacking(value) else str(value))

    def ordered(self, values: Iterable[object]) -> Key:
        """Return the key with an order for texts it did not know: as they occur."""
        texts = (value for value in values if isinstance(value, str))
        return replace(self, order=tuple(dict.fromkeys((*self.order, *texts))))


SUBJECT = Key("subject", Message("allocator"), order=tuple(allocators.registry()))
METRIC = Key("metric", show=metric_title)
BYTES = Key("bytes", Message("size"), show=size)


@dataclass(frozen=True, slots=True)
class Grid:
    """Headings and rows, ready for a `Table`."""

    columns: tuple[Text, ...]
    rows: tuple[tuple[Cell, ...], ...]


def grid(
    rows: pd.DataFrame,
    down: Sequence[Key],
    across: Key,
    *,
    style: Style = "median",
    gap: Callable[[Mapping[str, object]], Text] = lambda place: NOT_MEASURED,
    mark_meters: bool = False,
) -> Grid:
    """Lay out `rows`. No figure is dropped: axes that still tell figures apart become columns.

    `gap` gives the reason for a cell that no figure belongs to, from the place of its row.
    `mark_meters` flags a figure that another meter read than most of its metric.
    """
    records = records_of(rows)
    down = [*down, *_needed(list(records.values()), [*down, across])]
    down = [key.ordered(record.get(key.column) for record in records.values()) for key in down]
    across = across.ordered(record.get(across.column) for record in records.values())
    usual = _usual_meters(list(records.values()))
    cells: dict[tuple[object, ...], dict[object, Cell]] = {}
    for index, record in records.items():
        place = tuple(_hashable(record.get(key.column)) for key in down)
        cell = figure(index, record, style)
        if mark_meters and cell.reason is None and record["meter"] != usual[record["metric"]]:
            cell = replace(cell, flags=(*cell.flags, f"{READ_BY}{record['meter']}"))
        cells.setdefault(place, {})[_hashable(record.get(across.column))] = cell
    wide = sorted({value for line in cells.values() for value in line}, key=across.rank)
    places = sorted(cells, key=lambda place: [k.rank(v) for k, v in zip(down, place, strict=True)])
    lines = []
    for place in places:
        names = dict(zip((key.column for key in down), place, strict=True))
        labels = [label(key.show(value)) for key, value in zip(down, place, strict=True)]
        found = cells[place]
        lines.append((*labels, *(found.get(v) or empty(gap(names)) for v in wide)))
    return Grid((*(key.heading for key in down), *(across.show(v) for v in wide)), tuple(lines))


def records_of(rows: pd.DataFrame) -> dict[int, dict[str, Any]]:
    """Return each row as a dict, by its index: what pandas has for it takes four times as long."""
    names = list(rows.columns)
    lines = zip(*(rows[name].to_numpy(dtype=object).tolist() for name in names), strict=True)
    return {
        index: dict(zip(names, values, strict=True))
        for index, values in zip(rows.index.tolist(), lines, strict=True)
    }


def _needed(records: Sequence[Mapping[str, Any]], keys: Sequence[Key]) -> list[Key]:
    """Return keys for axes without which two figures would fall into one cell."""
    named = [key.column for key in keys]
    places: dict[tuple[object, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        place = tuple(_hashable(record.get(name)) for name in named)
        places.setdefault(place, []).append(record)
    together = [group for group in places.values() if len(group) > 1]
    if not together:
        return []
    for column in (name for name in records[0] if name not in _NO_AXES and name not in named):
        if any(len({_hashable(r[column]) for r in group}) > 1 for group in together):
            key = Key(column, show=size if "bytes" in column else plain)
            return [key, *_needed(records, [*keys, key])]
    raise ValueError(f"two figures of {named} differ in nothing: {together[0][:2]}")


def _usual_meters(records: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the meter that read most figures of each metric; the others are marked."""
    counts: dict[str, Counter[str]] = {}
    for record in records:
        if not _lacking(record["value"]):
            counts.setdefault(record["metric"], Counter())[record["meter"]] += 1
    return {
        metric: min(counter, key=lambda meter: (-counter[meter], meter))
        for metric, counter in counts.items()
    }


def _lacking(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _hashable(value: object) -> object:
    """Return the value, with the one None for whatever is lacking: NaN equals nothing."""
    return None if _lacking(value) else value
