"""Which private pool an entry of torch's history belongs to, and when the pool was released.

From torch 2.12 on an entry tells its pool. Before, the final map tells the pool of each segment,
and an allocation's follows from its address. What is inferred beside: torch returns segments in
``empty_cache``, before a request that needs memory (which then grows or fails), and as a `MemPool`
goes; so segments returned in neither of the first two were a `MemPool`'s. And torch returns its
cache before a request fails, except while allocations go to a private pool.

Sources: ``c10/cuda/CUDACachingAllocator.cpp`` (``malloc``, ``release_cached_blocks``), and
``aten/src/ATen/cuda/MemPool.cpp`` of torch 2.11; pull request 177717 for the pool of an entry.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocmark.allocators.base import PoolKind
from allocmark.recording.importers.snapshot_columns import ACTIONS, STATES
from allocmark.recording.importers.snapshot_file import SnapshotFile

_CODE = {name: code for code, name in enumerate(ACTIONS)}
_ALLOC, _OOM, _SNAPSHOT = _CODE["alloc"], _CODE["oom"], _CODE["snapshot"]
_SEGMENT_ALLOC, _SEGMENT_FREE = _CODE["segment_alloc"], _CODE["segment_free"]
GROWS = (_SEGMENT_ALLOC, _CODE["segment_map"])
SHRINKS = (_SEGMENT_FREE, _CODE["segment_unmap"])
_NOT_TOLD = -1
_Column = NDArray[np.int64]


@dataclass(slots=True)
class Pools:
    """Private pools by number, from 1; 0 is the common pool."""

    kinds: list[PoolKind]
    of_entry: list[int]
    """Of an allocation and of a request that failed; empty where no pool is known."""
    before: _Ranges
    """The segments that were there before the first entry."""
    released: dict[int, list[int]] = field(default_factory=dict)
    """By the place of an entry: the pools that were released before it."""
    dropped: set[int] = field(default_factory=set)
    """Places of entries: segments that a `MemPool` returned as it went."""
    segments_not_told: int = 0
    """Segments on other than the default stream, or on one of a private pool, that were returned,
    and nothing tells from which pool."""
    failed_assumed: bool = False
    """Whether the last request that failed is in the pool of the allocation before it by guess."""
    failed_in_empty: bool = False
    """Whether it is in a pool that had no segment, as the cache that was not returned tells."""


class _Ranges:
    """Ranges of addresses with the pool of each, by where they begin."""

    def __init__(self, ranges: Iterable[tuple[int, int, int]] = ()) -> None:
        self._found = {start: (start + size, pool) for start, size, pool in ranges}
        self._starts = sorted(self._found)

    def copy(self) -> _Ranges:
        """Return the same ranges, to add others to."""
        return _Ranges((start, end - start, pool) for start, (end, pool) in self._found.items())

    def add(self, start: int, size: int, pool: int) -> None:
        if start not in self._found:
            insort(self._starts, start)
        self._found[start] = (start + size, pool)

    def pool(self, address: int, missing: int = 0) -> int:
        """Return the pool of the range that holds an address."""
        place = bisect_right(self._starts, address) - 1
        if place < 0:
            return missing
        end, pool = self._found[self._starts[place]]
        return pool if address < end else missing


def follow(file: SnapshotFile, device: int) -> Pools:
    """Return the private pools of one device's history."""
    return _Follower(file, device).pools()


def of_final_map(file: SnapshotFile, device: int) -> Pools:
    """Return the private pools of a snapshot without a history: those of its segments."""
    columns = (
        file.column(device, "segments", name).tolist() for name in ("address", "size", "pool")
    )
    ranges = _Ranges(zip(*columns, strict=True))
    return Pools([_kind(pool) for pool in file.header["pools"]], [], ranges)


class _Follower:
    def __init__(self, file: SnapshotFile, device: int) -> None:
        self._file, self._device = file, device
        names = ("action", "addr", "size", "stream", "stack", "trims", "pool")
        columns = (file.column(device, "entries", name) for name in names)
        self._action, self._addr, self._size, self._stream, *more = columns
        self._stack, self._trims, told = more
        self._told = told if (told >= 0).any() else None
        self._segments = [
            file.column(device, "segments", name) for name in ("address", "size", "pool")
        ]
        self._kinds = [_kind(pool) for pool in file.header["pools"]]

    def pools(self) -> Pools:
        dropped = self._dropped()
        in_entries = self._told is not None and bool((self._told > 0).any())
        if not (in_entries or dropped.any() or (self._segments[2] > 0).any()):
            found = Pools(self._kinds, [], _Ranges())
        else:
            found = self._by_address(dropped)
        if self._told is None:
            self._place_failures(found)
        return found

    def _dropped(self) -> _Column:
        """Return a number for each entry that a `MemPool` returned as it went, else 0.

        Where entries tell their pool it is that; else each time that it happened is a new pool.
        """
        found = np.zeros(len(self._action), np.int64)
        shrinks = np.flatnonzero(np.isin(self._action, SHRINKS) & (self._trims == 0))
        if not len(shrinks) or not np.isin(self._action, GROWS).any():
            return found
        passing = (*SHRINKS, _CODE["free_completed"])
        others = np.flatnonzero(~np.isin(self._action, passing))
        then = np.append(others, len(found))[np.searchsorted(others, shrinks)]
        serves = np.isin(np.append(self._action, _SNAPSHOT)[then], (*GROWS, _OOM))
        # What torch returns for a request has the request's stack.
        stack, served = self._stack[shrinks], np.append(self._stack, -1)[then]
        serves &= (stack == served) | (stack < 0) | (served < 0)
        shrinks, then = shrinks[~serves], then[~serves]
        if self._told is not None:
            found[shrinks] = self._told[shrinks]
            return found
        times, which = np.unique(then, return_inverse=True)
        found[shrinks] = len(self._kinds) + 1 + which
        self._kinds += [PoolKind.MEMPOOL] * len(times)
        return found

    def _by_address(self, dropped: _Column) -> Pools:
        """Go back from the final map for each segment's pool, then forth for each allocation's."""
        of_segment, before, not_told = self._segment_pools(dropped)
        if self._told is not None:
            of_entry = np.maximum(self._told, 0).tolist()
        else:
            of_entry = self._allocation_pools(of_segment, before)
        gone = set(np.flatnonzero(dropped).tolist())
        found = Pools(self._kinds, of_entry, before, dropped=gone, segments_not_told=not_told)
        self._find_releases(found, of_segment, dropped)
        return found

    def _segment_pools(self, dropped: _Column) -> tuple[dict[int, int], _Ranges, int]:
        """Return the pool of each segment entry by its place, and what was there before them."""
        address, size, pool = (column.tolist() for column in self._segments)
        final = _Ranges(zip(address, size, pool, strict=True))
        held = {a: (s, p) for a, s, p in zip(address, size, pool, strict=True)}
        ranges, of_entry, not_told = _Ranges(), dict[int, int](), 0
        streams = self._file.column(self._device, "segments", "stream")
        private_streams = set(streams[self._segments[2] > 0].tolist())
        places = np.flatnonzero(np.isin(self._action, (*GROWS, *SHRINKS)))[::-1].tolist()
        for place in places:
            action, at, bytes_ = (
                int(column[place]) for column in (self._action, self._addr, self._size)
            )
            told = int(self._told[place]) if self._told is not None else _NOT_TOLD
            if action in SHRINKS:
                known = told if told >= 0 else int(dropped[place])
                # An expandable segment keeps its addresses; another may be given those of this one.
                own = known or (0 if action == _SEGMENT_FREE else final.pool(at))
                stream = int(self._stream[place])
                not_told += told < 0 and not own and (stream > 0 or stream in private_streams)
                held[at] = (bytes_, own)
                ranges.add(at, bytes_, own)
            elif action == _SEGMENT_ALLOC:
                own = held.pop(at, (0, 0))[1] if told < 0 else told
                held.pop(at, None)
            else:
                own = told if told >= 0 else final.pool(at, missing=ranges.pool(at))
            of_entry[place] = own
        before = _Ranges((a, s, p) for a, (s, p) in held.items())
        return of_entry, before, not_told

    def _allocation_pools(self, of_segment: dict[int, int], before: _Ranges) -> list[int]:
        ranges = before.copy()
        found = []
        entries = (column.tolist() for column in (self._action, self._addr, self._size))
        for place, (action, address, size) in enumerate(zip(*entries, strict=True)):
            if action == _ALLOC:
                found.append(ranges.pool(address))
                continue
            found.append(0)
            if action in GROWS:
                ranges.add(address, size, of_segment[place])
        return found

    def _find_releases(self, found: Pools, of_segment: dict[int, int], dropped: _Column) -> None:
        """A pool was released before the first of its segments went, after its last allocation."""
        of_entry = np.array(found.of_entry, np.int64)
        allocs = np.flatnonzero((self._action == _ALLOC) & (of_entry > 0))
        last = dict(zip(of_entry[allocs].tolist(), allocs.tolist(), strict=True))
        released: set[int] = set()
        for place in sorted(of_segment):
            pool = of_segment[place]
            if self._action[place] not in SHRINKS or not pool or pool in released:
                continue
            if last.get(pool, place) >= place:
                continue
            released.add(pool)
            if self._kinds[pool - 1] is PoolKind.MEMPOOL and not dropped[place]:
                self._kinds[pool - 1] = PoolKind.SHARED
            first = place
            while first and self._action[first - 1] in SHRINKS:
                first -= 1
            found.released.setdefault(first, []).append(pool)

    def _place_failures(self, found: Pools) -> None:
        """Say in which pool a request failed, where its entry does not tell."""
        failures = np.flatnonzero(self._action == _OOM).tolist()
        allocs = np.flatnonzero(self._action == _ALLOC)
        passing = np.flatnonzero(self._action != _CODE["free_completed"])
        for place in failures:
            before = passing[np.searchsorted(passing, place) - 1] if place else 0
            returned = self._action[before] in SHRINKS
            previous = allocs[np.searchsorted(allocs, place) - 1] if len(allocs) else place
            own = found.of_entry[previous] if found.of_entry and previous < place else 0
            if self._stream[previous] != self._stream[place] or returned:
                own = 0
            is_last = not (self._action[place + 1 :] != _SNAPSHOT).any()
            keeps_cache = is_last and not returned and self._has_cache()
            if keeps_cache and not own:
                self._kinds.append(PoolKind.MEMPOOL)
                own = len(self._kinds)
                found.failed_in_empty = True
            if own:
                found.failed_assumed = is_last and not keeps_cache
                found.of_entry = found.of_entry or [0] * len(self._action)
                found.of_entry[place] = own

    def _has_cache(self) -> bool:
        """Whether the final map has a segment of the common pool that could be returned."""
        start, size, pool = self._segments
        names = ("address", "state")
        address, state = (self._file.column(self._device, "blocks", name) for name in names)
        used = np.sort(address[state != STATES.index("inactive")])
        empty = np.searchsorted(used, start) == np.searchsorted(used, start + size)
        return bool((empty & (pool == 0)).any())


def _kind(pool: Sequence[int]) -> PoolKind:
    """Return the kind of a pool by its id: one of torch's two numbers is of captured graphs."""
    return PoolKind.GRAPH if pool[0] else PoolKind.MEMPOOL
