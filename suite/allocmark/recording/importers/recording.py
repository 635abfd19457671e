"""What an importer makes of a file: events to replay, their origin, and what is in doubt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocmark.allocators.base import PoolKind
from allocmark.workloads.event_trace import Trace

OF_ONE_DEVICE = (
    "free_bytes",
    "process_bytes",
    "reserved_bytes",
    "peak_outside_bytes",
    "memory_fraction",
)
"""What is known of the run's environment that holds for the recorded device only."""


@dataclass(frozen=True, slots=True)
class FailedRequest:
    """A request that the recorded program was refused: ``CUDA out of memory``.

    `event` is its place in the trace, where it stands as an allocation; `device_free_bytes` is what
    the driver said was free then, `reserved_bytes` what the allocator held, None where that is not
    known. `returned_bytes`: a block freed earlier, large enough for it, whose wait for another
    stream ended inside the failing call, too late to serve it.
    """

    event: int
    size_bytes: int
    device_free_bytes: int
    reserved_bytes: int | None = None
    returned_bytes: int = 0

    @property
    def room_bytes(self) -> int | None:
        """What the allocator had or could have got from the driver, None where not known."""
        return None if self.reserved_bytes is None else self.reserved_bytes + self.device_free_bytes


@dataclass(frozen=True, slots=True)
class BlockMap:
    """Segments and blocks of an allocator at one event, by address.

    `segments`: int64 rows of address, size, stream, pool (its number in the trace, 0 for the common
    one and for a released one, whose free segments can be returned). `blocks`: int64 rows of
    address, size, requested bytes, state (0 free, 1 live, 2 freed but another stream may still use
    it), block of the trace (-1 where none is known).
    """

    event: int
    segments: NDArray[np.int64]
    blocks: NDArray[np.int64]

    def by_address(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return segments and blocks, both in the order of their addresses."""
        by_segment, by_block = (
            t[:, 0].argsort(kind="stable") for t in (self.segments, self.blocks)
        )
        return self.segments[by_segment], self.blocks[by_block]


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run of one process on one device.

    `counted` holds what is known of the recorded run itself, in bytes and counts
    (``peak_reserved_bytes``, ``segments``, ``driver_allocs``, ``retries`` …), to hold a replay
    against. `setting` is the allocator setting it ran under, None where that is not known.
    `stack_of_block` is the place in `stacks` of each block of the trace, -1 for none; a stack is
    ``file:line function``, innermost first. `doubts` are sentences on what the file does not tell.
    """

    source: str
    device: int
    trace: Trace
    setting: str | None = None
    counted: Mapping[str, int] = field(default_factory=dict)
    stacks: Sequence[Sequence[str]] = ()
    stack_of_block: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    failed: Sequence[FailedRequest] = ()
    end_map: BlockMap | None = None
    has_history: bool = True
    """Whether the events are the program's; else they are what was alive at the end."""
    begins_late: bool = False
    """Whether something was alive before the first event: what was cached then is not known."""
    is_floor: bool = False
    """Whether the program's peak may lie before the first event, too."""
    environment: Mapping[str, object] = field(default_factory=dict)
    """What ``allocmark record`` wrote down beside the snapshot: GPU, capacity, versions."""
    doubts: Sequence[str] = ()
    causes: Sequence[str] = ()
    """What may set a replay apart from the recorded run, to be named where the two differ."""

    def stack(self, block: int) -> Sequence[str]:
        """Return the stack on which a block was allocated, empty where it is not known."""
        place = int(self.stack_of_block[block]) if 0 <= block < len(self.stack_of_block) else -1
        return self.stacks[place] if place >= 0 else ()


def imported_trace(
    file: str, rows: Sequence[Sequence[int]], pools: Sequence[PoolKind] = ()
) -> Trace:
    """Return rows of op, block, size and stream as the trace of a file of that name."""
    op, block, size, stream = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Trace(
        file.partition(".")[0],
        op=op.astype(np.uint8),
        block=block.copy(),
        size=size.copy(),
        stream=stream.astype(np.uint8),
        origin={"kind": "imported", "file": file},
        pools=pools,
    )
