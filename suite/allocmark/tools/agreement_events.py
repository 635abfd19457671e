"""Two courses of one workload, compared at every event (series ``every-event`` of fragmentation).

A series holds a counter's changes: after how many more events, and by how much
(`allocmark.experiments.fragmentation.events` writes it and says what is read when).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocmark.schema.documents import Document
from allocmark.schema.figure import Series

SERIES = "every-event"


@dataclass(frozen=True, slots=True)
class Event:
    """The first event of a workload after which a counter differs, with what it reads."""

    workload: str
    event: int
    column: str
    hardware: float
    emulated: float


@dataclass(frozen=True, slots=True)
class Course:
    """One workload compared: how many events, after how many every counter is equal.

    Or how many requests (`agreement_requests`). `only_one`: counters that one side lacks.
    """

    workload: str
    events: int
    equal: int
    first: Event | None = None
    only_one: tuple[str, ...] = ()


def courses(hardware: Document, emulated: Document) -> list[Course]:
    """Compare every workload whose events both documents hold, in the order of the first."""
    a, b = _counters(hardware), _counters(emulated)
    return [_compare(workload, a[workload], b[workload]) for workload in a if workload in b]


def _counters(document: Document) -> dict[str, dict[str, Series]]:
    """Return the series of each workload by counter."""
    found: dict[str, dict[str, Series]] = {}
    for series in document.series:
        if series.name == SERIES:
            workload, counter = str(series.axes["workload"]), str(series.axes["counter"])
            found.setdefault(workload, {})[counter] = series
    return found


def _compare(workload: str, a: Mapping[str, Series], b: Mapping[str, Series]) -> Course:
    events = max(int(series.axes["events"]) for series in (*a.values(), *b.values()))
    equal = np.ones(events, dtype=bool)
    differing: list[Event] = []
    for counter in [name for name in a if name in b]:
        theirs, ours = by_event(a[counter], events), by_event(b[counter], events)
        same = theirs == ours
        equal &= same
        if not same.all():
            at = int(np.argmin(same))
            differing.append(Event(workload, at, counter, float(theirs[at]), float(ours[at])))
    # Of counters that part at one event, the first in the order of the record is named.
    first = min(differing, key=lambda event: event.event, default=None)
    return Course(workload, events, int(equal.sum()), first, tuple(sorted(a.keys() ^ b.keys())))


def by_event(series: Series, events: int) -> NDArray[np.int64]:
    """Return the counter after each of `events` events; 0 before its first change."""
    steps = np.zeros(events, dtype=np.int64)
    places = np.cumsum(np.asarray(series.columns["event_step"], dtype=np.int64)) - 1
    steps[places] = np.asarray(series.columns["step"], dtype=np.int64)
    return np.cumsum(steps)


def counts(compared: Sequence[Course]) -> tuple[int, int]:
    """Return how many events or requests were compared, and how many are equal."""
    return sum(course.events for course in compared), sum(course.equal for course in compared)
