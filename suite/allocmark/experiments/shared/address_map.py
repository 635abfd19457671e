"""torch's memory by address over the events of a replay, as a picture of few cells.

Series ``address_map``: event, live, cached, split, stuck and pool bytes at some points. Series
``address_cells``: kind, `CELLS` for each point, lowest address first; addresses that no segment
ever held are left out. Kinds: 0 not reserved, 1 cached, 2 live, 3 stuck, 4 split, 5 free in a
private pool. Series ``memory_tracks``: event, stream and pool (their numbers in the trace, 0 for
the default stream and the common pool), allocated, reserved and inactive split bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import Recorder
from allocmark.schema.metrics.recording import ADDRESS_CELLS, ADDRESS_MAP, MEMORY_TRACKS

CELLS = 160
POINTS = 120
NOTHING, CACHED, LIVE, PENDING, SPLIT, POOL = range(6)
_STATES = {"inactive": CACHED, "active_allocated": LIVE}
_MOST_SECONDS = 2.0
"""A snapshot of many blocks takes milliseconds: the picture must not cost more than the replay."""
Rows = NDArray[np.int64]


_TRACKS = ("event", "stream", "pool", "allocated", "reserved", "inactive_split")


class AddressMap:
    """Takes the map at points of one replay; `streams` are the trace's numbers by their handles."""

    def __init__(self, allocator: Allocator, device: int, streams: Mapping[int, int]) -> None:
        self._allocator, self._device = allocator, device
        self._streams = {0: 0, **streams}
        self._taken: list[tuple[int, Rows]] = []
        self._owners: dict[tuple[int, int], None] = {}
        self._tracks: list[tuple[int, ...]] = []
        self._seconds = 0.0

    def take(self, event: int) -> None:
        """Take the map after that event, while there is time."""
        if self._seconds > _MOST_SECONDS:
            return
        begin = time.perf_counter()
        pools = self._allocator.private_pools()
        rows: list[tuple[int, int, int]] = []
        held = {owner: [0, 0, 0] for owner in self._owners}
        for segment in import_torch().cuda.memory_snapshot():
            if segment["device"] != self._device:
                continue
            blocks, at = segment["blocks"], segment["address"]
            beside = any(b["state"] != "inactive" for b in blocks)
            free = SPLIT if beside else CACHED
            pool = pools.get(tuple(segment.get("segment_pool_id", ())), 0)
            if pool:
                free = POOL
            stream = self._streams.setdefault(segment["stream"], len(self._streams))
            own = held.setdefault((stream, pool), [0, 0, 0])
            for block in blocks:
                kind = _STATES.get(block["state"], PENDING)
                rows.append((at, block["size"], free if kind == CACHED else kind))
                at += block["size"]
                own[0] += block["size"] * (kind == LIVE)
                own[1] += block["size"]
                own[2] += block["size"] * (kind == CACHED and beside)
        self._owners = dict.fromkeys(held)  # One that holds nothing any more is at zero.
        self._tracks += [(event, *owner, *found) for owner, found in held.items()]
        self._taken.append((event, np.array(sorted(rows), np.int64).reshape(-1, 3)))
        self._seconds += time.perf_counter() - begin

    def send(self, recorder: Recorder) -> None:
        """Send what was taken."""
        totals = [
            [
                int(rows[rows[:, 2] == kind, 1].sum())
                for kind in (LIVE, CACHED, SPLIT, PENDING, POOL)
            ]
            for _event, rows in self._taken
        ]
        live, cached, split, stuck, pool = zip(*totals, strict=True) if totals else [()] * 5
        events = [event for event, _rows in self._taken]
        columns = {"live": live, "cached": cached, "split": split, "stuck": stuck, "pool": pool}
        recorder.series(ADDRESS_MAP, {}, event=events, **columns)
        tracks = list(zip(*self._tracks, strict=True)) or [()] * len(_TRACKS)
        recorder.series(MEMORY_TRACKS, {}, **dict(zip(_TRACKS, tracks, strict=True)))
        kinds = cells([rows for _event, rows in self._taken])
        recorder.series(ADDRESS_CELLS, {}, kind=kinds.ravel().tolist())


def cells(maps: list[Rows]) -> NDArray[np.int64]:
    """Return the kind of each cell of each map: rows of address, size and kind, by address."""
    starts, ends = _ranges(maps)
    total = int((ends - starts).sum())
    drawn = np.zeros((len(maps), CELLS), np.int64)
    if not total:
        return drawn
    before = np.concatenate([[0], np.cumsum(ends - starts)])
    edges = np.linspace(0, total, CELLS + 1)
    for place, rows in enumerate(maps):
        inside = np.searchsorted(starts, rows[:, 0], side="right") - 1
        first = before[inside] + rows[:, 0] - starts[inside]
        shares = [_share(first, rows, kind, edges) for kind in range(CACHED, POOL + 1)]
        nothing = np.diff(edges) - np.sum(shares, axis=0)
        drawn[place] = np.argmax(np.stack([nothing, *shares]), axis=0)
    return drawn


def _ranges(maps: list[Rows]) -> tuple[Rows, Rows]:
    """Return the ranges of addresses that were ever reserved, merged."""
    every = np.concatenate([np.zeros((0, 3), np.int64), *maps])
    every = every[np.argsort(every[:, 0], kind="stable")]
    starts, ends = every[:, 0], np.maximum.accumulate(every[:, 0] + every[:, 1])
    new = np.ones(len(every), bool)
    new[1:] = starts[1:] > ends[:-1]
    last = np.flatnonzero(new)[1:] - 1
    return starts[new], ends[np.append(last, len(every) - 1)] if len(every) else ends


def _share(first: Rows, rows: Rows, kind: int, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bytes of one kind in each cell."""
    chosen = rows[:, 2] == kind
    if not chosen.any():
        return np.zeros(len(edges) - 1)
    begin, size = first[chosen], rows[chosen, 1]
    points = np.stack([begin, begin + size], 1).ravel()
    after = np.cumsum(size)
    values = np.stack([after - size, after], 1).ravel()
    return np.diff(np.interp(edges, points, values, left=0, right=int(after[-1])))
