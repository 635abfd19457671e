"""The cells of the latency tables, and why an allocator leaves some of them empty."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from allocmark.allocators.base import Allocator, Capability
from allocmark.experiments.core.recorder import Cell
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import latency as metrics

SIZES = tuple(1 << exponent for exponent in range(9, 38, 2))
"""Every second power of two, 512 B to 128 GiB; what does not fit is an empty cell."""
CROSS_SIZES = (1 << 21, 1 << 27)
"""Sizes of the cross check: one block of a shared segment and one with a segment of its own."""
CROSS_CHECK = (
    metrics.CROSS_CHECK_LOOP_NS,
    metrics.CROSS_CHECK_PROGRAM_NS,
    metrics.CROSS_CHECK_RATIO,
)

CELLS = (
    *((metrics.FIRST, call) for call in (metrics.ALLOC, metrics.FREE)),
    *((path, call) for path in (metrics.MISS, metrics.HIT) for call in metrics.CALLS),
    (metrics.GIVE_BACK, metrics.FREE),
)
"""Every path with the calls it has."""


class CallCell(NamedTuple):
    """The place of a figure but for its size."""

    path: str
    call: str
    level: str
    wait: str

    def axes(self, size_bytes: int) -> dict[str, Axis]:
        """Return the axes of the cell at one size."""
        return {**self._asdict(), "bytes": size_bytes}


def expected(sizes: Sequence[int]) -> Iterator[Cell]:
    """Yield the axes of every cell with its metrics."""
    for level in metrics.LEVELS:
        yield {"level": level}, (metrics.EMPTY_PAIR_NS, metrics.CLOCK_NS)
    for (path, call), level, wait, size in product(CELLS, metrics.LEVELS, metrics.WAITS, sizes):
        tail = metrics.SINGLE if (path, wait) == (metrics.HIT, metrics.HOST) else ()
        yield CallCell(path, call, level, wait).axes(size), (metrics.CALL_NS, *tail)
    for size in CROSS_SIZES:
        yield {"bytes": size}, CROSS_CHECK


def stream_ordered(allocator: Allocator) -> bool:
    """Whether memory is handed out in the order of a stream, so that a call only queues work."""
    return Capability.CACHE in allocator.capabilities and (
        Capability.EXACT not in allocator.capabilities
    )


def why_empty(allocator: Allocator, keeps: bool, cell: CallCell) -> str | None:
    """Return why a cell is empty at every size, None where it can be measured.

    `keeps` says whether freed memory stays cached over a synchronization.
    """
    able = allocator.capabilities
    if cell.level == metrics.OP and Capability.OP not in able:
        return str(allocator.lacks(Capability.OP))
    if cell.path == metrics.HIT:
        return _why_no_hit(allocator, keeps, cell)
    if Capability.CACHE in able and Capability.TRIM not in able:
        if cell.path == metrics.GIVE_BACK:
            return str(allocator.lacks(Capability.TRIM))
        if cell.path == metrics.MISS:
            return "its cache cannot be emptied: after the first use every call is a hit"
    return None


def _why_no_hit(allocator: Allocator, keeps: bool, cell: CallCell) -> str | None:
    if Capability.CACHE not in allocator.capabilities:
        return str(allocator.lacks(Capability.CACHE))
    if cell.wait == metrics.HOST:
        return None
    if not stream_ordered(allocator):
        return "a hit is complete when it returns: it leaves nothing on the stream"
    if cell.call != metrics.ALLOC and not keeps:
        return "the synchronization that completes it empties this pool: see give-back"
    return None
