"""A document of hardware and an emulated one of the same subject, compared; times are left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from allocmark.schema.documents import Document
from allocmark.schema.figure import Series
from allocmark.system.errors import AllocmarkError
from allocmark.tools.agreement_events import Course, Event, counts, courses
from allocmark.tools.agreement_requests import requests

CURVE = "memory"


@dataclass(frozen=True, slots=True)
class CellPair:
    """A cell that both sides measured. `share` is the difference relative to hardware."""

    workload: str
    """Or what else tells a document's cells apart: its axes."""
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
class DocumentComparison:
    """One allocator's documents, compared. `only_one`: cells and curves that one side lacks."""

    allocator: str
    cells: tuple[CellPair, ...]
    readings: int
    readings_equal: int
    first_events: tuple[Event, ...]
    """One for each workload that differs."""
    only_one: tuple[str, ...]
    courses: tuple[Course, ...] = ()
    """The workloads compared at every event: those whose events both documents hold."""
    requests: tuple[Course, ...] = ()
    """Those whose requests to the driver both documents hold."""

    @property
    def cells_equal(self) -> int:
        """How many cells are equal to the byte."""
        return sum(cell.share == 0 for cell in self.cells)

    @property
    def largest(self) -> CellPair | None:
        """The cell in bytes that differs most, None where all are equal."""
        off = [cell for cell in self.cells if cell.share > 0 and cell.unit == "bytes"]
        return max(off, key=lambda cell: cell.share, default=None)

    @property
    def equal(self) -> bool:
        """Whether everything is there on both sides, and equal."""
        counted = [(len(self.cells), self.cells_equal), (self.readings, self.readings_equal)]
        counted += [counts(self.courses), counts(self.requests)]
        return all(total == equal for total, equal in counted) and not self.only_one


def compare(hardware: Document, emulated: Document) -> DocumentComparison:
    """Compare two documents of one experiment and allocator; times are left out.

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
    cells = tuple(CellPair(*place, *a[place], b[place][1]) for place in a if place in b)
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
    only_one += [f"{course.workload} every event: {n}" for course in every for n in course.only_one]
    return DocumentComparison(
        allocator=hardware.subject,
        cells=cells,
        readings=readings,
        readings_equal=equal,
        first_events=tuple(events),
        only_one=tuple(sorted(only_one)),
        courses=tuple(every),
        requests=tuple(requests(hardware, emulated)),
    )


def _measured(document: Document) -> dict[tuple[str, str], tuple[str, float]]:
    """Return axes and metric to unit and value, of what is measured and is no time."""
    return {
        (" ".join(map(str, figure.axes.values())), figure.metric): (figure.unit, figure.value)
        for figure in document.figures
        if figure.kind != "time" and figure.value is not None
    }


def _workload(series: Series) -> str:
    return str(series.axes["workload"])


def _points(a: Series, b: Series) -> Iterator[Event]:
    """Yield every reading that both curves have."""
    for column in [name for name in a.columns if name != "event" and name in b.columns]:
        theirs, ours = (
            dict(zip(map(int, s.columns["event"]), s.columns[column], strict=True)) for s in (a, b)
        )
        for event in [event for event in theirs if event in ours]:
            yield Event(_workload(a), event, column, theirs[event], ours[event])


def _unmatched(workload: str, a: Series, b: Series) -> list[str]:
    columns = set(a.columns) ^ set(b.columns)
    events = set(a.columns["event"]) ^ set(b.columns["event"])
    found = [f"{workload} curve: {column}" for column in columns]
    return found + ([f"{workload} curve: {len(events)} events"] if events else [])
