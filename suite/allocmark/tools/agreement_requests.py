"""What an allocator asked the driver for, compared request by request (series ``driver-requests``).

Where a region lies depends on the process's other mappings, so distances differ from process to
process. Which of two regions lies lower is what an allocator can go by, and is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from allocmark.schema.documents import Document
from allocmark.schema.figure import Series

SERIES = "driver-requests"


@dataclass(frozen=True, slots=True)
class Requests:
    """One workload's requests: equal are those of the same bytes and place among addresses."""

    workload: str
    requests: int
    equal: int


def requests(hardware: Document, emulated: Document) -> list[Requests]:
    """Compare every workload whose requests both documents hold, in the order of the first.

    Requests that one side alone made count as different.
    """
    a, b = _by_workload(hardware), _by_workload(emulated)
    return [_compare(workload, a[workload], b[workload]) for workload in a if workload in b]


def _by_workload(document: Document) -> dict[str, Series]:
    return {str(s.axes["workload"]): s for s in document.series if s.name == SERIES}


def _compare(workload: str, a: Series, b: Series) -> Requests:
    sides = [list(zip(s.columns["bytes"], _places(s), strict=True)) for s in (a, b)]
    equal = sum(theirs == ours for theirs, ours in zip(*sides, strict=False))
    return Requests(workload, max(map(len, sides)), equal)


def _places(series: Series) -> list[int]:
    """Return for each request how many different addresses are lower; 0 is a refused one's."""
    _, places = np.unique(np.asarray(series.columns["address"]), return_inverse=True)
    return [int(place) for place in places]


def counts(compared: Sequence[Requests]) -> tuple[int, int]:
    """Return how many requests were compared, and how many of them are equal."""
    return sum(each.requests for each in compared), sum(each.equal for each in compared)
