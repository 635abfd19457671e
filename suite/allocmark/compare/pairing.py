"""Which figures of two sides belong together: the same cell, whichever run or stack it is from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from allocmark.compare.core_speed import at_pace, pace_of, paces
from allocmark.compare.model import place_text
from allocmark.compare.run_set import Pair, Source
from allocmark.schema.figure import Axis, Figure


class Home(NamedTuple):
    """What the figures of a document have in common."""

    machine: str
    profile: str
    framework: str
    stack: str
    probe: str
    subject: str


Spot = tuple[str, str, frozenset[tuple[str, Axis]]]
"""Which of its home's figures it is: metric, meter, axes."""


class Key(NamedTuple):
    """What makes two figures one cell.

    The meter of a time names its batch, which is fitted to the machine as it is at the moment, so
    it is left out; that of bytes is part of what was read.
    """

    home: Home
    metric: str
    meter: str
    axes: frozenset[tuple[str, Axis]]


class Run(NamedTuple):
    """One run of one stack: what a figure is read once in."""

    stack: str
    run: str


@dataclass(slots=True)
class Cell:
    """One figure on one side, by run. `source` is the newest document that has a value of it."""

    figures: dict[Run, Figure] = field(default_factory=dict)
    source: Source | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Couple:
    """A cell that both sides have a value of; `values_a` and `values_b` are those, run by run."""

    key: Key
    place: str
    a: Mapping[Run, Figure]
    b: Mapping[Run, Figure]
    source: Source
    """Where it is from in B: the command that measures it again, and the machine shown."""
    line: str
    """Whose it is, where there are several pairs of stacks: one text for all of a pair."""
    values_a: list[float] = field(init=False, repr=False, compare=False)
    values_b: list[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Asked for many times of each of a hundred thousand.
        object.__setattr__(self, "values_a", _values(self.a))
        object.__setattr__(self, "values_b", _values(self.b))


def _values(cell: Mapping[Run, Figure]) -> list[float]:
    return [float(figure.value) for figure in cell.values() if figure.value is not None]


@dataclass(frozen=True, slots=True)
class Single:
    """A cell that one side has a value of: `only` says which, `reason` what the other says."""

    place: str
    only: str
    reason: str
    line: str


DISTURBED = "noisy-cpu"
"""The flag of a time too few readings of which came from a quiet core."""

Cells = dict[Home, dict[Spot, tuple[Cell, Cell]]]
"""Every cell, of A and of B."""


def cells(pair: Pair) -> Cells:
    """Return every cell of both sides, the times of a machine at one pace.

    In a study the machine, driver and framework are no part of a cell's key.
    """
    found: Cells = {}
    wanted = paces((*pair.a.sources, *pair.b.sources))
    for number, side in enumerate((pair.a, pair.b)):
        for source in sorted(side.sources, key=lambda source: source.document.started):
            document = source.document
            machine, profile, framework = source.line
            home = Home(
                "" if pair.study else machine,
                profile,
                framework,
                source.stack if pair.by_stack else "",
                document.probe,
                document.subject,
            )
            here = found.setdefault(home, {})
            run = Run(source.stack, document.run)
            pace, pace_wanted = pace_of(document), wanted.get(machine)
            for figure in document.figures:
                meter = "" if figure.unit in ("s", "ns") or figure.kind == "time" else figure.meter
                spot = figure.metric, meter, frozenset(figure.axes.items())
                if (both := here.get(spot)) is None:
                    both = here[spot] = Cell(), Cell()
                cell = both[number]
                if figure.value is None:
                    cell.reason = figure.reason
                else:
                    cell.figures[run] = at_pace(figure, pace, pace_wanted)
                    cell.source = source
    return found


def couples(pair: Pair) -> tuple[list[Couple], list[Single]]:
    """Return the cells with a value on both sides, and those with one on one side."""
    both: list[Couple] = []
    single: list[Single] = []
    for line, place, home, spot, (a, b) in _in_order(cells(pair)):
        if a.figures and b.figures and b.source is not None:
            key, quiet_a, quiet_b = Key(home, *spot), _quiet(a.figures), _quiet(b.figures)
            both.append(Couple(key, place, quiet_a, quiet_b, b.source, line))
        elif a.figures or b.figures:
            has, lacks = ("a", b) if a.figures else ("b", a)
            single.append(Single(place, has, lacks.reason or "there is no such figure", line))
    return both, single


def _quiet(figures: Mapping[Run, Figure]) -> Mapping[Run, Figure]:
    """Return the runs whose core was quiet, all where none was.

    What was refused was so by the work beside a reading, never by the reading: leaving it out
    favours neither side.
    """
    if len(figures) == 1:
        return figures
    return {run: f for run, f in figures.items() if DISTURBED not in f.flags} or figures


def line_of(home: Home) -> str:
    """Return whose figures they are, in words: machine, profile, framework and stack."""
    return " ".join(filter(None, home[:4]))


def _in_order(found: Cells) -> Iterator[tuple[str, str, Home, Spot, tuple[Cell, Cell]]]:
    """Yield the cells with whose they are and their names: by stack, then by name and meter."""
    stacks: dict[tuple[str, ...], list[Home]] = {}
    for home in found:
        stacks.setdefault(home[:4], []).append(home)
    names: dict[tuple[str, str], dict[Spot, str]] = {}  # Stack after stack has the same ones.
    for stack in sorted(stacks):
        line = line_of(stacks[stack][0]) if len(stacks) > 1 else ""
        here = []
        for home in stacks[stack]:
            known = names.setdefault((home.probe, home.subject), {})
            for spot, both in found[home].items():
                if (place := known.get(spot)) is None:
                    place = place_text(home.probe, home.subject, spot[0], dict(spot[2]))
                    known[spot] = place
                here.append((line, place, home, spot, both))
        yield from sorted(here, key=lambda cell: (cell[1], cell[3][1]))
