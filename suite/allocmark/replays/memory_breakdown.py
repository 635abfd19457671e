"""What an allocator's reserved memory is made of at one event, and who pins what.

*live*: held by the program, after rounding. *cached*: in segments without any live block:
``empty_cache`` gives them back, and so does torch before it fails. *inactive split*: free, but in a
segment that also holds live blocks, so it cannot be given back, only reused by what fits. *pending
free*: freed by the program, but another stream may still use it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocmark.recording.importers.recording import BlockMap, Recording

FREE, LIVE, PENDING_FREE = 0, 1, 2
_ADDRESS, _SIZE, _REQUESTED, _STATE, _BLOCK = range(5)
_MOST = 5
_Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pin:
    """Blocks allocated at one place of the program, and the segments that they keep.

    `split_bytes` is free in those segments: it comes free when the last of their blocks goes.
    `addresses` are those of the segments, in order.
    """

    stack: Sequence[str]
    blocks: int
    live_bytes: int
    segments: int
    inactive_split_bytes: int
    addresses: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Holder:
    """Live blocks allocated at one place of the program."""

    stack: Sequence[str]
    blocks: int
    live_bytes: int


@dataclass(frozen=True, slots=True)
class PinnedSegment:
    """A segment that holds live blocks beside free memory; `blocks` are size and stack of each."""

    address: int
    size_bytes: int
    inactive_split_bytes: int
    live_bytes: int
    blocks: Sequence[tuple[int, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class MemoryBreakdown:
    """Reserved memory at one event, in bytes; its parts add up to `reserved_bytes`."""

    event: int
    reserved_bytes: int
    live_bytes: int
    requested_bytes: int
    pending_free_bytes: int
    cached_bytes: int
    inactive_split_bytes: int
    largest_free_bytes: int
    segments: int
    pinned_segments: int
    pins: Sequence[Pin]
    worst: Sequence[PinnedSegment]
    holders: Sequence[Holder] = ()


def break_down(found: BlockMap, recording: Recording) -> MemoryBreakdown:
    """Return what a map of blocks says; the worst pins, segments and holders, `_MOST` of each."""
    segments, blocks = found.by_address()
    size, state = blocks[:, _SIZE], blocks[:, _STATE]
    of_segment = np.searchsorted(segments[:, _ADDRESS], blocks[:, _ADDRESS], side="right") - 1
    count = len(segments)
    free_in, used_in = (
        np.bincount(of_segment[mask], weights=size[mask], minlength=count).astype(np.int64)
        for mask in (state == FREE, state != FREE)
    )
    split_in = np.where(used_in > 0, free_in, 0)
    return MemoryBreakdown(
        event=found.event,
        reserved_bytes=int(segments[:, _SIZE].sum()),
        live_bytes=int(size[state == LIVE].sum()),
        requested_bytes=int(blocks[state == LIVE, _REQUESTED].sum()),
        pending_free_bytes=int(size[state == PENDING_FREE].sum()),
        cached_bytes=int(free_in[used_in == 0].sum()),
        inactive_split_bytes=int(split_in.sum()),
        largest_free_bytes=int(size[state == FREE].max(initial=0)),
        segments=count,
        pinned_segments=int((split_in > 0).sum()),
        pins=_pins(segments, blocks, of_segment, split_in, recording)[:_MOST],
        worst=_worst(segments, blocks, of_segment, split_in, recording),
        holders=_holders(blocks[state == LIVE], recording)[:_MOST],
    )


def _holders(live: _Rows, recording: Recording) -> list[Holder]:
    """Return who holds live memory, by the place in the program, most first."""
    sizes: dict[tuple[str, ...], list[int]] = {}
    for size, block in live[:, (_SIZE, _BLOCK)].tolist():
        sizes.setdefault(tuple(recording.stack(block)), []).append(size)
    found = [Holder(stack, len(own), sum(own)) for stack, own in sizes.items()]
    return sorted(found, key=lambda holder: (-holder.live_bytes, holder.stack))


def _pins(
    segments: _Rows, blocks: _Rows, of_segment: _Rows, split_in: _Rows, recording: Recording
) -> list[Pin]:
    """Return who keeps split memory, by the place in the program, most first."""
    sizes: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    kept: defaultdict[tuple[str, ...], set[int]] = defaultdict(set)
    pinning = (blocks[:, _STATE] != FREE) & (split_in[of_segment] > 0)
    rows = zip(blocks[pinning].tolist(), of_segment[pinning].tolist(), strict=True)
    for (_address, size, _requested, _state, block), segment in rows:
        stack = tuple(recording.stack(block))
        sizes[stack].append(size)
        kept[stack].add(segment)
    found = [
        Pin(
            stack,
            blocks=len(own),
            live_bytes=sum(own),
            segments=len(kept[stack]),
            inactive_split_bytes=int(split_in[sorted(kept[stack])].sum()),
            addresses=segments[sorted(kept[stack]), _ADDRESS].tolist(),
        )
        for stack, own in sizes.items()
    ]
    return sorted(found, key=lambda pin: (-pin.inactive_split_bytes, pin.live_bytes, pin.stack))


def _worst(
    segments: _Rows, blocks: _Rows, of_segment: _Rows, split_in: _Rows, recording: Recording
) -> list[PinnedSegment]:
    """Return the segments with most split memory, with their blocks, the largest first."""
    found = []
    for place in np.argsort(-split_in, kind="stable")[:_MOST].tolist():
        if not split_in[place]:
            break
        inside = blocks[(of_segment == place) & (blocks[:, _STATE] != FREE)]
        inside = inside[np.argsort(-inside[:, _SIZE], kind="stable")]
        sizes = [(int(row[_SIZE]), recording.stack(int(row[_BLOCK]))) for row in inside[:_MOST]]
        address, size = int(segments[place, _ADDRESS]), int(segments[place, _SIZE])
        live = int(inside[:, _SIZE].sum())
        found.append(PinnedSegment(address, size, int(split_in[place]), live, sizes))
    return found
