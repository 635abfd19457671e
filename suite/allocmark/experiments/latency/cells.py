"""The cells of the latency tables, and why an allocator leaves some of them empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from allocmark.allocators.base import Allocator, Capability
from allocmark.schema.figure import Axis

SIZES = tuple(1 << exponent for exponent in range(9, 38, 2))
"""Every second power of two, 512 B to 128 GiB; what does not fit is an empty cell."""
CROSS_SIZES = (1 << 21, 1 << 27)
"""Sizes of the cross check: one block of a shared segment and one with a segment of its own."""

CELLS = (
    ("first", "alloc"),
    ("first", "free"),
    ("miss", "alloc"),
    ("miss", "free"),
    ("miss", "pair"),
    ("hit", "alloc"),
    ("hit", "free"),
    ("hit", "pair"),
    ("give-back", "free"),
)
"""Every path with the calls it has."""
LEVELS = ("allocator", "op")
WAITS = ("host", "complete")

CALL = "call_ns"
P99 = "call_p99_ns"


class Cell(NamedTuple):
    """The place of a figure but for its size."""

    path: str
    call: str
    level: str
    wait: str

    def axes(self, size_bytes: int) -> dict[str, Axis]:
        """Return the axes of the cell at one size."""
        return {**self._asdict(), "bytes": size_bytes}


def expected(sizes: Sequence[int]) -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the axes of every cell with its metrics and their units."""
    for level in LEVELS:
        yield {"level": level}, {"empty_pair_ns": "ns", "clock_ns": "ns"}
    for (path, call), level, wait, size in product(CELLS, LEVELS, WAITS, sizes):
        metrics = {CALL: "ns"}
        if (path, wait) == ("hit", "host"):
            metrics[P99] = "ns"
        yield Cell(path, call, level, wait).axes(size), metrics
    for size in CROSS_SIZES:
        yield (
            {"bytes": size},
            {
                "cross_check_loop_ns": "ns",
                "cross_check_program_ns": "ns",
                "cross_check_ratio": "ratio",
            },
        )


def stream_ordered(allocator: Allocator) -> bool:
    """Whether memory is handed out in the order of a stream, so that a call only queues work."""
    return Capability.CACHE in allocator.capabilities and (
        Capability.EXACT not in allocator.capabilities
    )


def why_empty(allocator: Allocator, keeps: bool, cell: Cell) -> str | None:
    """Return why a cell is empty at every size, None where it can be measured.

    `keeps` says whether freed memory stays cached over a synchronization.
    """
    able = allocator.capabilities
    if cell.level == "op" and Capability.OP not in able:
        return str(allocator.lacks(Capability.OP))
    if cell.path == "hit":
        return _why_no_hit(allocator, keeps, cell)
    if Capability.CACHE in able and Capability.TRIM not in able:
        if cell.path == "give-back":
            return str(allocator.lacks(Capability.TRIM))
        if cell.path == "miss":
            return "its cache cannot be emptied: after the first use every call is a hit"
    return None


def _why_no_hit(allocator: Allocator, keeps: bool, cell: Cell) -> str | None:
    if Capability.CACHE not in allocator.capabilities:
        return str(allocator.lacks(Capability.CACHE))
    if cell.wait == "host":
        return None
    if not stream_ordered(allocator):
        return "a hit is complete when it returns: it leaves nothing on the stream"
    if cell.call != "alloc" and not keeps:
        return "the synchronization that completes it empties this pool: see give-back"
    return None
