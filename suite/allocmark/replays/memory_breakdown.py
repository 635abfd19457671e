"""What an allocator's reserved memory is made of at one event, and who pins what.

*live*: held by the program, after rounding. *cached*: in segments without any live block:
``empty_cache`` gives them back, and so does torch before it fails. *inactive split*: free, but in a
segment that also holds live blocks, so it cannot be given back, only reused by what fits. *pending
free*: freed by the program, but another stream may still use it. *free in private pools*: in
segments of a CUDA graph's or a `MemPool`'s own pool, which only that can use and which stay while
it lives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocmark.allocators.base import PoolKind
from allocmark.recording.importers.recording import BlockMap, Recording
from allocmark.workloads.event_trace import Op

FREE, LIVE, PENDING_FREE = 0, 1, 2
_POOL = 3
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
class PrivatePool:
    """The memory of one private pool that is not released.

    `stack` is where its largest request came from, of `largest_request_bytes`; empty and 0 where
    the recording tells of no request.
    """

    number: int
    kind: PoolKind
    reserved_bytes: int
    live_bytes: int
    free_bytes: int
    largest_free_bytes: int
    segments: int
    largest_request_bytes: int
    stack: Sequence[str]


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
    private_pool_free_bytes: int = 0
    pools: Sequence[PrivatePool] = ()


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
    private = segments[:, _POOL] > 0
    split_in = np.where((used_in > 0) & ~private, free_in, 0)
    return MemoryBreakdown(
        event=found.event,
        reserved_bytes=int(segments[:, _SIZE].sum()),
        live_bytes=int(size[state == LIVE].sum()),
        requested_bytes=int(blocks[state == LIVE, _REQUESTED].sum()),
        pending_free_bytes=int(size[state == PENDING_FREE].sum()),
        cached_bytes=int(free_in[(used_in == 0) & ~private].sum()),
        inactive_split_bytes=int(split_in.sum()),
        largest_free_bytes=int(size[(state == FREE) & ~private[of_segment]].max(initial=0)),
        segments=count,
        pinned_segments=int((split_in > 0).sum()),
        pins=_pins(segments, blocks, of_segment, split_in, recording)[:_MOST],
        worst=_worst(segments, blocks, of_segment, split_in, recording),
        holders=_holders(blocks[state == LIVE], recording)[:_MOST],
        private_pool_free_bytes=int(free_in[private].sum()),
        pools=_pools(segments, blocks, of_segment, _served(recording, found.event), recording),
    )


def _served(recording: Recording, event: int) -> _Rows:
    """Return the requested bytes of each block up to an event, 0 where the request failed."""
    trace = recording.trace
    served = (trace.op == Op.ALLOC) & (np.arange(len(trace)) <= event)
    served[[failed.event for failed in recording.failed]] = False
    requested = np.zeros(len(trace.pool_of_block), np.int64)
    requested[trace.block[served]] = trace.size[served]
    return requested


def _pools(
    segments: _Rows, blocks: _Rows, of_segment: _Rows, requested: _Rows, recording: Recording
) -> list[PrivatePool]:
    """Return the private pools, the one with most memory first."""
    trace = recording.trace
    found = []
    for number in np.unique(segments[segments[:, _POOL] > 0, _POOL]).tolist():
        own = segments[:, _POOL] == number
        inside = blocks[own[of_segment]]
        free = inside[inside[:, _STATE] == FREE, _SIZE]
        here = np.where(trace.pool_of_block == number, requested, 0)
        largest = int(here.max(initial=0))
        found.append(
            PrivatePool(
                number,
                trace.pools[number - 1],
                reserved_bytes=int(segments[own, _SIZE].sum()),
                live_bytes=int(inside[inside[:, _STATE] == LIVE, _SIZE].sum()),
                free_bytes=int(free.sum()),
                largest_free_bytes=int(free.max(initial=0)),
                segments=int(own.sum()),
                largest_request_bytes=largest,
                stack=recording.stack(int(here.argmax())) if largest else (),
            )
        )
    return sorted(found, key=lambda pool: (-pool.reserved_bytes, pool.number))


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
