"""Which figures of two sides belong together: the same cell, whichever run or stack it is from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from allocmark.compare.core_speed import at_core_speed, core_speed_of, core_speeds
from allocmark.compare.model import Missing
from allocmark.compare.run_set import RunSetPair, Source
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.figure_id import figure_id_of
from allocmark.schema.flags import NOISY_CPU


class DocumentKey(NamedTuple):
    """What the figures of a document have in common."""

    machine: str
    profile: str
    framework: str
    stack: str
    probe: str
    subject: str


CellKey = tuple[str, str, frozenset[tuple[str, Axis]]]
"""Which of its document's figures it is: metric, meter, axes."""


class FigureKey(NamedTuple):
    """What makes two figures one cell.

    The meter of a time names its batch, which is fitted to the machine as it is at the moment, so
    it is left out; that of bytes is part of what was read.
    """

    document: DocumentKey
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
class FigurePair:
    """A cell that both sides have a value of; `values_a` and `values_b` are those, run by run.

    `source` is where it is from in B: the command that measures it again, and the machine shown.
    `emulated`: a side was read on the emulated driver, whose times are not a GPU's.
    `series_id` is whose it is, where there are several pairs of stacks: one text for all of a pair.
    """

    key: FigureKey
    figure_id: str
    a: Mapping[Run, Figure]
    b: Mapping[Run, Figure]
    source: Source
    emulated: bool
    series_id: str
    values_a: list[float] = field(init=False, repr=False, compare=False)
    values_b: list[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Asked for many times of each of a hundred thousand.
        object.__setattr__(self, "values_a", _values(self.a))
        object.__setattr__(self, "values_b", _values(self.b))


def _values(cell: Mapping[Run, Figure]) -> list[float]:
    return [float(figure.value) for figure in cell.values() if figure.value is not None]


Cells = dict[DocumentKey, dict[CellKey, tuple[Cell, Cell]]]
"""Every cell, of A and of B."""


def cells(sets: RunSetPair) -> Cells:
    """Return every cell of both sides, the times of a machine at one core speed.

    In a study the machine, driver and framework are no part of a cell's key.
    """
    found: Cells = {}
    wanted = core_speeds((*sets.a.sources, *sets.b.sources))
    for number, side in enumerate((sets.a, sets.b)):
        for source in sorted(side.sources, key=lambda source: source.document.started):
            document = source.document
            machine, profile, framework = source.series_id
            key = DocumentKey(
                machine="" if sets.study else machine,
                profile=profile,
                framework=framework,
                stack=source.stack if sets.by_stack else "",
                probe=document.probe,
                subject=document.subject,
            )
            here = found.setdefault(key, {})
            run = Run(source.stack, document.run)
            speed, speed_wanted = core_speed_of(document), wanted.get(machine)
            for figure in document.figures:
                meter = "" if figure.unit in ("s", "ns") or figure.kind == "time" else figure.meter
                cell_key = figure.metric, meter, frozenset(figure.axes.items())
                if (both := here.get(cell_key)) is None:
                    both = here[cell_key] = Cell(), Cell()
                cell = both[number]
                if figure.value is None:
                    cell.reason = figure.reason
                else:
                    cell.figures[run] = at_core_speed(figure, speed, speed_wanted)
                    cell.source = source
    return found


def figure_pairs(sets: RunSetPair) -> tuple[list[FigurePair], list[Missing]]:
    """Return the cells with a value on both sides, and those with one on one side."""
    both: list[FigurePair] = []
    unpaired: list[Missing] = []
    for series_id, figure_id, document, cell_key, (a, b) in _in_order(cells(sets)):
        if a.source is not None and b.source is not None:
            both.append(
                FigurePair(
                    key=FigureKey(document, *cell_key),
                    figure_id=figure_id,
                    a=_quiet(a.figures),
                    b=_quiet(b.figures),
                    source=b.source,
                    emulated=a.source.document.emulated or b.source.document.emulated,
                    series_id=series_id,
                )
            )
        elif a.figures or b.figures:
            reason = (b if a.figures else a).reason or "there is no such figure"
            only: Literal["a", "b"] = "a" if a.figures else "b"
            unpaired.append(Missing(figure_id, only, reason, series_id))
    return both, unpaired


def _quiet(figures: Mapping[Run, Figure]) -> Mapping[Run, Figure]:
    """Return the runs whose core was quiet, all where none was.

    What was refused was so by the work beside a reading, never by the reading: leaving it out
    favours neither side.
    """
    if len(figures) == 1:
        return figures
    return {run: f for run, f in figures.items() if NOISY_CPU not in f.flags} or figures


def series_of(document: DocumentKey) -> str:
    """Return whose figures they are, in words: machine, profile, framework and stack."""
    return " ".join(filter(None, document[:4]))


def _in_order(found: Cells) -> Iterator[tuple[str, str, DocumentKey, CellKey, tuple[Cell, Cell]]]:
    """Yield the cells with whose they are and their names: by stack, then by name and meter."""
    stacks: dict[tuple[str, ...], list[DocumentKey]] = {}
    for document in found:
        stacks.setdefault(document[:4], []).append(document)
    # Stack after stack has the same ones.
    names: dict[tuple[str, str], dict[CellKey, str]] = {}
    for stack in sorted(stacks):
        series_id = series_of(stacks[stack][0]) if len(stacks) > 1 else ""
        here = []
        for document in stacks[stack]:
            known = names.setdefault((document.probe, document.subject), {})
            for key, both in found[document].items():
                if (name := known.get(key)) is None:
                    name = figure_id_of(document.probe, document.subject, key[0], dict(key[2]))
                    known[key] = name
                here.append((series_id, name, document, key, both))
        yield from sorted(here, key=lambda cell: (cell[1], cell[3][1]))
