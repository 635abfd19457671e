"""torch's memory history turned into a trace, and into what the driver was asked and answered.

Source: PyTorch's ``torch.cuda.memory._snapshot`` documentation: ``device_traces`` holds, for each
device, entries in order with ``action``, ``addr``, ``size`` and ``stream``. ``alloc`` carries the
requested size; a block can be used again from ``free_completed`` on, not from ``free_requested``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocmark.system.errors import AllocmarkError
from allocmark.workloads.event_trace import Op, Trace

_MOST_STREAMS = 256


class SegmentOp(IntEnum):
    """What happened to a segment."""

    ALLOC = 0
    """A piece of driver memory was allocated."""
    FREE = 1
    """It was given back."""
    MAP = 2
    """Memory was mapped into an expandable segment."""
    UNMAP = 3
    """Memory was unmapped from one."""


_SEGMENT_OPS = {
    "segment_alloc": SegmentOp.ALLOC,
    "segment_free": SegmentOp.FREE,
    "segment_map": SegmentOp.MAP,
    "segment_unmap": SegmentOp.UNMAP,
}


@dataclass(frozen=True)
class Placement:
    """Where the driver placed an allocator's segments, in order.

    `op` uint8 (`SegmentOp`), `event` uint32 (how many events of the trace came before), `size`
    and `address` int64, `stream` uint8 (numbered as in the trace).
    """

    name: str
    op: NDArray[np.uint8]
    event: NDArray[np.uint32]
    size: NDArray[np.int64]
    address: NDArray[np.int64]
    stream: NDArray[np.uint8]
    origin: Mapping[str, str | int | float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.op)


def convert(
    name: str,
    entries: Iterable[Mapping[str, Any]],
    segments_before: Sequence[Mapping[str, Any]] = (),
    origin: Mapping[str, str | int | float] | None = None,
) -> tuple[Trace, Placement]:
    """Return the trace and the placement that a history holds.

    `entries` are one device's of ``device_traces``; `segments_before` is that device's part of
    ``memory_snapshot()`` from before the history began: its live blocks become the first events.
    Raises `AllocmarkError` for a history that does not fit together.
    """
    reader = _Reader(name)
    for segment in segments_before:
        reader.take_segment(segment)
    for entry in entries:
        reader.take(entry)
    return reader.results(origin or {})


class _Reader:
    """What has been read of a history so far."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._block_at: dict[int, int] = {}
        self._blocks = 0
        self._stream_ids: dict[int, int] = {0: 0}  # The default stream is 0 everywhere.
        self._events: list[tuple[int, int, int, int]] = []
        self._segments: list[tuple[int, int, int, int, int]] = []

    def take_segment(self, segment: Mapping[str, Any]) -> None:
        """Take a segment that was there before, and its live blocks."""
        stream, size = segment["stream"], segment["total_size"]
        self._segment_event(SegmentOp.ALLOC, size, segment["address"], stream)
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                self._alloc(block["address"], block["requested_size"], stream)

    def take(self, entry: Mapping[str, Any]) -> None:
        """Take the next entry."""
        action, stream = entry["action"], entry["stream"]
        if action == "alloc":
            self._alloc(entry["addr"], entry["size"], stream)
        elif action == "free_completed":
            self._free(entry["addr"], stream)
        elif action in _SEGMENT_OPS:
            self._segment_event(_SEGMENT_OPS[action], entry["size"], entry["addr"], stream)

    def results(self, origin: Mapping[str, str | int | float]) -> tuple[Trace, Placement]:
        """Return what was read as arrays."""
        op, block, size, stream = np.array(self._events, dtype=np.int64).reshape(-1, 4).T
        columns = op.astype(np.uint8), block.copy(), size.copy(), stream.astype(np.uint8)
        trace = Trace(self._name, *columns, origin)
        trace.validate()
        # A device address needs 49 bits at most: it fits into a signed 64-bit number.
        op, event, size, address, stream = np.array(self._segments, np.int64).reshape(-1, 5).T
        kinds, events = op.astype(np.uint8), event.astype(np.uint32)
        pieces = size.copy(), address.copy(), stream.astype(np.uint8)
        return trace, Placement(self._name, kinds, events, *pieces, origin)

    def _alloc(self, address: int, size: int, stream: int) -> None:
        if address in self._block_at:
            raise AllocmarkError(
                f"the history of {self._name} does not fit together: at event "
                f"{len(self._events)} a live block is allocated again"
            )
        self._block_at[address] = self._blocks
        self._events.append((Op.ALLOC, self._blocks, size, self._stream(stream)))
        self._blocks += 1

    def _free(self, address: int, stream: int) -> None:
        block = self._block_at.pop(address, None)
        if block is None:
            raise AllocmarkError(
                f"the history of {self._name} does not fit together: at event "
                f"{len(self._events)} a block is freed that was never allocated "
                "(was the history cut off, or begun too late?)"
            )
        self._events.append((Op.FREE, block, 0, self._stream(stream)))

    def _segment_event(self, op: SegmentOp, size: int, address: int, stream: int) -> None:
        self._segments.append((op, len(self._events), size, address, self._stream(stream)))

    def _stream(self, handle: int) -> int:
        number = self._stream_ids.setdefault(handle, len(self._stream_ids))
        if number >= _MOST_STREAMS:
            raise AllocmarkError(
                f"{self._name} uses more than {_MOST_STREAMS} streams: a trace cannot hold them"
            )
        return number
