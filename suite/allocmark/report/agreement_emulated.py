"""How far an emulated run agrees with hardware, cell by cell and along the curves over events.

``python -m allocmark.report.agreement_emulated HARDWARE EMULATED --out FILE`` reads the
documents below two folders and writes a table as Markdown: one row for each allocator that both
have fragmentation documents of. Not for two runs of one machine: that is `report.agreement`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark import documents
from allocmark.documents import Document
from allocmark.errors import EXIT_BAD_INPUT, EXIT_FINE, AllocmarkError
from allocmark.figures import Series
from allocmark.report.agreement_events import Course, Event, counts, courses, lacking
from allocmark.report.escape import markdown, markdown_line

PROBE = "fragmentation"
CURVE = "memory"
TITLE = "The emulated driver against hardware"
ABOUT = (
    "The same workloads ran over the same allocators on a GPU and on the emulated driver. A cell "
    "is a number of bytes, calls, blocks or a ratio of them; a reading is a point of a curve "
    "(requested, allocated or reserved bytes after an event). Events are compared where both sides "
    "recorded all of them: one is equal if allocated and reserved bytes, segments, driver calls, "
    "retries and failures are after it. Equal means to the byte. Times are not compared. Where "
    "cells differ, the share is the largest difference of any cell in bytes, relative to "
    "hardware. What is behind cudaMallocAsync, and so behind torch's backend of that "
    "name, is part of NVIDIA's driver: the emulated one has a model of it, which holds other "
    "amounts; all else is the allocators' own code."
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that both sides measured. `share` is the difference relative to hardware."""

    workload: str
    metric: str
    unit: str
    hardware: float
    emulated: float

    @property
    def share(self) -> float:
        """0 where equal, infinite where hardware reads 0 and the emulated driver does not."""
        if self.hardware == self.emulated:
            return 0.0
        if self.hardware == 0:
            return float("inf")
        return abs(self.emulated - self.hardware) / abs(self.hardware)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One allocator's documents, compared. `only_one`: cells and curves that one side lacks."""

    allocator: str
    cells: tuple[Cell, ...]
    readings: int
    readings_equal: int
    first_events: tuple[Event, ...]
    """One for each workload that differs."""
    only_one: tuple[str, ...]
    courses: tuple[Course, ...] = ()
    """The workloads compared at every event: those whose events both documents hold."""

    @property
    def cells_equal(self) -> int:
        """How many cells are equal to the byte."""
        return sum(cell.share == 0 for cell in self.cells)

    @property
    def largest(self) -> Cell | None:
        """The cell in bytes that differs most, None where all are equal."""
        off = [cell for cell in self.cells if cell.share > 0 and cell.unit == "bytes"]
        return max(off, key=lambda cell: cell.share, default=None)

    @property
    def equal(self) -> bool:
        """Whether everything is there on both sides, and equal."""
        readings = self.readings == self.readings_equal
        events, equal = counts(self.courses)
        cells = self.cells_equal == len(self.cells)
        return cells and readings and events == equal and not self.only_one


def compare(hardware: Document, emulated: Document) -> Comparison:
    """Compare two documents of one probe and allocator; times are left out.

    Raises `AllocmarkError` if they are of different subjects, or the second is not emulated.
    """
    places = [(document.probe, document.subject) for document in (hardware, emulated)]
    if places[0] != places[1]:
        raise AllocmarkError(f"these documents are not of one subject: {places[0]}, {places[1]}")
    if hardware.emulated or not emulated.emulated:
        raise AllocmarkError(
            f"{hardware.subject}: the first document must be of hardware, the second emulated"
        )
    a, b = _measured(hardware), _measured(emulated)
    cells = tuple(Cell(*place, *a[place], b[place][1]) for place in a if place in b)
    curves = [
        {_workload(series): series for series in d.series if series.name == CURVE}
        for d in (hardware, emulated)
    ]
    every = courses(hardware, emulated)
    first = {course.workload: course.first for course in every}
    only_one = [" ".join(place) for place in a.keys() ^ b.keys()]
    only_one += [f"{workload} curve" for workload in curves[0].keys() ^ curves[1].keys()]
    readings = equal = 0
    events: list[Event] = []
    for workload in [name for name in curves[0] if name in curves[1]]:
        points = list(_points(curves[0][workload], curves[1][workload]))
        different = [event for event in points if event.hardware != event.emulated]
        readings, equal = readings + len(points), equal + len(points) - len(different)
        # Where every event is on record, a point of the curve is too late a place to name.
        found = first.get(workload) or min(different, key=lambda event: event.event, default=None)
        events += [found] if found else []
        only_one += _unmatched(workload, curves[0][workload], curves[1][workload])
    only_one += lacking(every)
    subject, lacks = hardware.subject, tuple(sorted(only_one))
    return Comparison(subject, cells, readings, equal, tuple(events), lacks, tuple(every))


def _measured(document: Document) -> dict[tuple[str, str], tuple[str, float]]:
    """Return workload and metric to unit and value, of what is measured and is no time."""
    return {
        (str(figure.axes["workload"]), figure.metric): (figure.unit, figure.value)
        for figure in document.figures
        if figure.kind != "time" and figure.value is not None
    }


def _workload(series: Series) -> str:
    return str(series.axes["workload"])


def _by_event(series: Series, column: str) -> dict[int, float]:
    values = zip(series.columns["event"], series.columns[column], strict=True)
    return {int(event): value for event, value in values}


def _points(a: Series, b: Series) -> Iterator[Event]:
    """Yield every reading that both curves have."""
    for column in [name for name in a.columns if name != "event" and name in b.columns]:
        theirs, ours = _by_event(a, column), _by_event(b, column)
        for event in [event for event in theirs if event in ours]:
            yield Event(_workload(a), event, column, theirs[event], ours[event])


def _unmatched(workload: str, a: Series, b: Series) -> list[str]:
    columns = set(a.columns) ^ set(b.columns)
    events = set(a.columns["event"]) ^ set(b.columns["event"])
    found = [f"{workload} curve: {column}" for column in columns]
    return found + ([f"{workload} curve: {len(events)} events"] if events else [])


def compare_all(
    hardware: Iterable[Document], emulated: Iterable[Document]
) -> list[tuple[Document, Document, Comparison]]:
    """Compare the documents of each allocator that both sides have, in the order of names.

    Raises `AllocmarkError` if they share none, or one side has an allocator twice.
    """
    a, b = _by_subject(hardware), _by_subject(emulated)
    both = sorted(a.keys() & b.keys())
    if not both:
        raise AllocmarkError(f"the two folders share no {PROBE} document: nothing to compare")
    return [(a[name], b[name], compare(a[name], b[name])) for name in both]


def _by_subject(found: Iterable[Document]) -> dict[str, Document]:
    known: dict[str, Document] = {}
    for document in found:
        if document.probe != PROBE:
            continue
        if document.subject in known:
            raise AllocmarkError(
                f"{document.subject} is there twice: name the folder of one stack and profile"
            )
        known[document.subject] = document
    return known


def render(compared: Sequence[tuple[Document, Document, Comparison]]) -> str:
    """Return the page: the table, the differing events, the conditions of both sides."""
    rows = [row(comparison) for _, _, comparison in compared]
    head = ["allocator", *("cells", "equal", "readings", "equal", "events", "equal")]
    head += ["largest difference", "where"]
    events = [
        f"- {markdown_line(comparison.allocator)}, {markdown_line(_sentence(event))}"
        for _, _, comparison in compared
        for event in comparison.first_events
    ]
    parts = [
        f"# {TITLE}",
        ABOUT,
        _table(head, ["---", *["---:"] * 7, "---"], rows),
        "## First differing event of each workload" if events else "",
        "\n".join(events),
        "## Conditions",
        _conditions([hardware for hardware, _, _ in compared], "hardware"),
        _conditions([emulated for _, emulated, _ in compared], "emulated"),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def row(comparison: Comparison) -> list[str]:
    """Return an allocator's row; one without a cell on both sides says what is missing."""
    largest = comparison.largest
    numbers = [
        *(len(comparison.cells), comparison.cells_equal),
        *(comparison.readings, comparison.readings_equal),
    ]
    every = [f"{n:,}" for n in counts(comparison.courses)] if comparison.courses else ["", ""]
    share = f"{100 * largest.share:.2g} %" if largest else "none"
    where = f"{largest.metric} of {largest.workload}" if largest else ""
    if not comparison.cells:
        share, where = "", "nothing measured on both sides"
    elif comparison.only_one:
        where = f"{where}; {len(comparison.only_one)} on one side only".removeprefix("; ")
    return [comparison.allocator, *(f"{n:,}" for n in numbers), *every, share, where]


def _sentence(event: Event) -> str:
    counter = event.column.replace("_", " ")
    return (
        f"{event.workload}: {counter} after event {event.event} is "
        f"{event.hardware:,.0f} on hardware, {event.emulated:,.0f} emulated"
    )


def _table(head: Sequence[str], rule: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [map(markdown, head), rule, *(map(markdown, texts) for texts in rows)]
    return "\n".join(f"| {' | '.join(texts)} |" for texts in cells)


def _conditions(side: Sequence[Document], name: str) -> str:
    """Return one line: each name of the stack with all its values, then when and with what."""
    merged: dict[str, dict[str, None]] = {}
    for document in side:
        held: Mapping[str, object] = {
            **document.stack,
            "profile": document.profile,
            "date": document.started[:10],
            "suite": document.suite,
        }
        for key, value in held.items():
            if value is not None:
                merged.setdefault(key, {})[str(value)] = None
    texts = [f"{key.replace('_', ' ')} {' / '.join(values)}" for key, values in merged.items()]
    line = f"{name}: {'; '.join(texts)}."
    return f"- {markdown_line(line)}"


def main(arguments: Sequence[str]) -> int:
    """Compare two folders and write the page; returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m allocmark.report.agreement_emulated")
    parser.add_argument("hardware", type=Path, metavar="HARDWARE", help="documents of a GPU")
    parser.add_argument("emulated", type=Path, metavar="EMULATED", help="emulated documents")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")
    chosen = parser.parse_args(arguments)
    try:
        compared = compare_all(_read(chosen.hardware), _read(chosen.emulated))
    except AllocmarkError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    documents.write_whole(chosen.out, render(compared).encode())
    print(chosen.out)
    return EXIT_FINE


def _read(root: Path) -> list[Document]:
    return [documents.read(path) for path in sorted(root.rglob(f"{PROBE}.*{documents.SUFFIX}"))]


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
