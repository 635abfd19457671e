"""Which figures of two sides belong together: the same cell, whichever run or stack it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from allocmark.compare.model import place_text
from allocmark.compare.pace import Paces, at_pace, pace_of, paces
from allocmark.compare.sides import Pair, Side, Source
from allocmark.figures import Axis, Figure


class Key(NamedTuple):
    """What makes two figures one cell.

    The meter of a time names its batch, which is fitted to the machine as it is at the moment, so
    it is left out; that of bytes is part of what was read.
    """

    machine: str
    profile: str
    framework: str
    stack: str
    probe: str
    subject: str
    metric: str
    meter: str
    axes: frozenset[tuple[str, Axis]]


class Run(NamedTuple):
    """One run of one stack: what a figure is read once in."""

    stack: str
    run: str


@dataclass(slots=True)
class Cell:
    """One figure on one side, by run. `source` is the newest document that has it."""

    figures: dict[Run, Figure] = field(default_factory=dict)
    source: Source | None = None
    reason: str | None = None

    @property
    def measured(self) -> bool:
        """Whether any run has a value."""
        return bool(self.figures)


@dataclass(frozen=True, slots=True)
class Couple:
    """A cell that both sides have a value of."""

    key: Key
    place: str
    a: Mapping[Run, Figure]
    b: Mapping[Run, Figure]
    source: Source
    """Where it is from in B: the command that measures it again, and the machine shown."""


@dataclass(frozen=True, slots=True)
class Single:
    """A cell that one side has a value of: `only` says which, `reason` what the other says."""

    place: str
    only: str
    reason: str


def cells(side: Side, study: bool, by_stack: bool, wanted: Paces) -> dict[Key, Cell]:
    """Return every cell of a side, its times at the pace `wanted`.

    In a study the machine, driver and framework are no part of a cell's key.
    """
    found: dict[Key, Cell] = {}
    for source in sorted(side.sources, key=lambda source: source.document.started):
        document = source.document
        machine, profile, framework = source.line
        run = Run(source.stack, document.run)
        pace, pace_wanted = pace_of(document), wanted.get(machine)
        for figure in document.figures:
            key = Key(
                "" if study else machine,
                profile,
                framework,
                source.stack if by_stack else "",
                document.probe,
                document.subject,
                figure.metric,
                "" if figure.unit in ("s", "ns") or figure.kind == "time" else figure.meter,
                frozenset(figure.axes.items()),
            )
            cell = found.setdefault(key, Cell())
            if figure.value is None:
                cell.reason = figure.reason
            else:
                cell.figures[run] = at_pace(figure, pace, pace_wanted)
                cell.source = source
    return found


def couples(pair: Pair) -> tuple[list[Couple], list[Single]]:
    """Return the cells with a value on both sides, and those with one on one side."""
    wanted = paces((*pair.a.sources, *pair.b.sources))
    a, b = (cells(side, pair.study, pair.by_stack, wanted) for side in (pair.a, pair.b))
    both: list[Couple] = []
    single: list[Single] = []
    nothing = Cell()
    places = {
        key: place_text(key.probe, key.subject, key.metric, dict(key.axes))
        for key in a.keys() | b.keys()
    }
    # Strings, so that a hundred thousand are in order soon.
    for key in sorted(places, key=lambda key: (*key[:4], places[key], key.meter)):
        one, other = a.get(key, nothing), b.get(key, nothing)
        if not one.measured and not other.measured:
            continue
        place = places[key]
        if one.measured and other.measured and other.source is not None:
            both.append(Couple(key, place, one.figures, other.figures, other.source))
        else:
            lacks = other if one.measured else one
            reason = lacks.reason or "there is no such figure"
            single.append(Single(place, "a" if one.measured else "b", reason))
    return both, single
