"""What an allocator asked the driver for, compared request by request (series ``driver-requests``).

Where a region lies depends on the process's other mappings, so distances differ from process to
process. Which of two regions lies lower is what an allocator can go by, and is compared.
"""

from __future__ import annotations

import numpy as np

from allocmark.schema.documents import Document
from allocmark.schema.figure import Series
from allocmark.tools.agreement_events import Course

SERIES = "driver-requests"


def requests(hardware: Document, emulated: Document) -> list[Course]:
    """Compare every workload whose requests both documents hold, in the order of the first.

    Equal are those of the same bytes and place among addresses; requests that one side alone made
    count as different.
    """
    a, b = _by_workload(hardware), _by_workload(emulated)
    return [_compare(workload, a[workload], b[workload]) for workload in a if workload in b]


def _by_workload(document: Document) -> dict[str, Series]:
    return {str(s.axes["workload"]): s for s in document.series if s.name == SERIES}


def _compare(workload: str, a: Series, b: Series) -> Course:
    sides = [list(zip(s.columns["bytes"], _places(s), strict=True)) for s in (a, b)]
    equal = sum(theirs == ours for theirs, ours in zip(*sides, strict=False))
    return Course(workload, max(map(len, sides)), equal)


def _places(series: Series) -> list[int]:
    """Return for each request how many different addresses are lower; 0 is a refused one's."""
    _, places = np.unique(np.asarray(series.columns["address"]), return_inverse=True)
    return [int(place) for place in places]
