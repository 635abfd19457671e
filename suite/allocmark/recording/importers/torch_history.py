"""torch's history as events: addresses become blocks, and what came before it becomes the start.

A history may begin in the middle of a run (it was started late, or its ring was full and forgot
the oldest entries). What was alive then is known all the same: a block that is freed without
having been allocated, or that is in the final map without an allocation, was there before. In
which order those were allocated is not known; they come first, by address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from allocmark.recording.importers import torch_pools
from allocmark.recording.importers.recording import FailedRequest
from allocmark.recording.importers.snapshot_columns import ACTIONS, STATES, TRIMS_UNKNOWN
from allocmark.recording.importers.snapshot_file import SnapshotFile
from allocmark.recording.importers.torch_pools import GROWS, SHRINKS, Pools
from allocmark.system.errors import AllocmarkError
from allocmark.workloads.event_trace import Op

_MOST_STREAMS = 256
_ONE_CALL_US = 5
"""A free is requested and completes in one call within a microsecond, unless interrupted."""
_CODE = {name: code for code, name in enumerate(ACTIONS)}


@dataclass(slots=True)
class Events:
    """The events of a history, ready to become a trace; what was odd about it in counts."""

    pools: Pools
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    """op, block, size, stream."""
    stacks: list[int] = field(default_factory=list)
    """Of each block."""
    block_at: dict[int, int] = field(default_factory=dict)
    """The live block at each address, after the last event."""
    failed: list[FailedRequest] = field(default_factory=list)
    before_blocks: int = 0
    before_bytes: int = 0
    before_with_stack: int = 0
    reallocated: int = 0
    waited: int | None = 0
    """Frees that waited for another stream; None where the history leaves out the requests."""
    given_back: int = 0
    """How often torch itself gave segments back: short of memory, or collecting garbage."""
    trims: int = 0
    trims_without_stack: int = 0
    has_history: bool = True
    """False where only what was alive at the end is known: torch keeps one entry unasked."""


def events_of(file: SnapshotFile, device: int, retries: int | None = None) -> Events:
    """Return the events of one device. Raises `AllocmarkError` for what no history can hold.

    `retries` is how often torch was short of memory, None where its counters were not kept: where
    that is as often as segments were given back without a stack, torch did it itself.
    """
    names = ("action", "addr", "size", "stream", "stack", "trims", "time_us")
    entries = {name: file.column(device, "entries", name).tolist() for name in names}
    kept = len(entries["action"])
    if kept == 0 or (kept == 1 and len(file.column(device, "segments", "size"))):
        pools = torch_pools.of_final_map(file, device)
        events = _Walk(file, device, pools).go({name: [] for name in names})
        events.has_history = False
        return events
    if retries is not None and retries >= _releases_without_stack(entries):
        entries["trims"] = [max(0, trims) for trims in entries["trims"]]
    return _Walk(file, device, torch_pools.follow(file, device)).go(entries)


class _Walk:
    def __init__(self, file: SnapshotFile, device: int, pools: Pools) -> None:
        self._file, self._device, self._pools = file, device, pools
        self._out = Events(pools)
        self._pool = 0
        self._streams: dict[int, int] = {0: 0}  # The default stream is 0 everywhere.
        self._blocks: list[tuple[int, int]] = []  # Size and stream of each.
        self._late: set[int] = set()  # Blocks freed in a later call than asked for.

    def go(self, entries: dict[str, list[int]]) -> Events:
        out = self._out
        self._start(entries)
        # A history whose completed frees were left out (skip_actions) still tells the requests.
        completes = _CODE["free_completed"] in set(entries["action"])
        free = _CODE["free_completed"] if completes else _CODE["free_requested"]
        requests = _CODE["free_requested"] in set(entries["action"])
        alloc, oom = _CODE["alloc"], _CODE["oom"]
        requested = _CODE["free_requested"]
        rows, stacks, block_at = out.rows, out.stacks, out.block_at
        pool_of, released = self._pools.of_entry, self._pools.released
        dropped = self._pools.dropped
        asked = _Asked()
        in_trim = in_release = False
        reserved = reserved_over_entries(self._file, self._device)[0].tolist()
        # Without a history the one entry is passed over.
        rows_of_entries = zip(*entries.values(), reserved, strict=bool(entries["action"]))
        for place, entry in enumerate(rows_of_entries):
            action, address, size, stream, stack, trims, time_us, held = entry
            if released and place in released:
                self._release(released[place])
            if action == alloc:
                self._free_unseen(address)
                if pool_of and pool_of[place] != self._pool:
                    self._route(pool_of[place])
                block_at[address] = block = len(stacks)
                stacks.append(stack)
                self._blocks.append((size, self._stream(stream)))
                rows.append((0, block, size, self._stream(stream)))
            elif action == free:
                freed = block_at.pop(address, None)
                if freed is not None:
                    rows.append((1, freed, 0, self._stream(stream)))
                    if completes and requests:
                        waited = asked.waited(address, stack)
                        out.waited = (out.waited or 0) + bool(waited)
                        # Without stacks the time tells, where it matters: it is no proof.
                        if waited or (waited is None and time_us - asked.time_us > _ONE_CALL_US):
                            self._late.add(freed)
            elif action == oom:
                self._route(pool_of[place] if pool_of else 0)
                self._fail(address, size, stream, stack, held)
            # What the program gave back by hand, once for a row of segments.
            gives_back = action in SHRINKS and trims != 0
            if gives_back and not in_trim:
                self._route(0)
                rows.append((int(Op.TRIM), -1, 0, 0))
                out.trims += 1
                out.trims_without_stack += trims == TRIMS_UNKNOWN
            in_trim = gives_back
            by_itself = action in SHRINKS and trims == 0 and place not in dropped
            out.given_back += by_itself and not in_release
            in_release = by_itself
            if action == requested:
                asked = _Asked(address, stack, time_us)
            elif asked.address != address:
                asked = _Asked()
        if completes and not requests:
            out.waited = None
        return out

    def _start(self, entries: dict[str, list[int]]) -> None:
        """Allocate what was alive before the first entry."""
        found = _alive_before(entries)
        allocated_later = _alive_at_end(entries)
        wanted = ("address", "requested", "state", "stream", "stack")
        columns = [self._file.column(self._device, "blocks", name).tolist() for name in wanted]
        for address, size, state, stream, stack in zip(*columns, strict=True):
            if state != STATES.index("inactive") and address not in allocated_later:
                found.setdefault(address, (size, stream, stack))
        out = self._out
        for address in sorted(found):
            size, stream, stack = found[address]
            self._route(self._pools.before.pool(address))
            out.block_at[address] = len(out.stacks)
            out.rows.append((0, len(out.stacks), size, self._stream(stream)))
            out.stacks.append(stack)
            self._blocks.append((size, self._stream(stream)))
            out.before_bytes += size
            out.before_with_stack += stack >= 0
        out.before_blocks = len(found)

    def _route(self, pool: int) -> None:
        """Let allocations go to that pool."""
        if pool == self._pool:
            return
        if self._pool:
            self._out.rows.append((int(Op.POOL_END), -1, 0, 0))
        if pool:
            self._out.rows.append((int(Op.POOL_BEGIN), -1, pool, 0))
        self._pool = pool

    def _release(self, pools: Sequence[int]) -> None:
        self._route(0)
        self._out.rows += [(int(Op.POOL_RELEASE), -1, pool, 0) for pool in pools]

    def _free_unseen(self, address: int) -> None:
        """Free a block whose address is given out again: its end was not recorded."""
        block = self._out.block_at.pop(address, None)
        if block is not None:
            self._out.rows.append((1, block, 0, 0))
            self._out.reallocated += 1

    def _fail(self, device_free: int, size: int, stream: int, stack: int, reserved: int) -> None:
        """Let the refused request be served, and freed at once: the program went on without it.

        A block large enough for it that was free before could not have been overlooked: its wait
        for another stream ended inside the failing call, so its free comes after the request.
        """
        out = self._out
        number = self._stream(stream)
        place, returned = self._came_back(size, number)
        failed = FailedRequest(place, size, device_free, reserved, returned)
        out.failed.append(failed)
        block = len(out.stacks)
        out.stacks.append(stack)
        self._blocks.append((size, number))
        out.rows[place:place] = [(0, block, size, number), (1, block, 0, number)]

    def _came_back(self, size: int, stream: int) -> tuple[int, int]:
        """Return the place of the last free before a failure that would have served it, its size.

        Only frees with nothing but other frees behind them can lie inside the failing call. Without
        one it is the end of the events, and 0.
        """
        rows = self._out.rows
        place = len(rows)
        for at in range(len(rows) - 1, -1, -1):
            op, block, _size, _stream = rows[at]
            if op != Op.FREE:
                break
            known, home = self._blocks[block]
            if block in self._late and known >= size and home == stream:
                return at, known
        return place, 0

    def _stream(self, handle: int) -> int:
        number = self._streams.setdefault(handle, len(self._streams))
        if number >= _MOST_STREAMS:
            raise AllocmarkError(
                f"the recording uses more than {_MOST_STREAMS} streams: a replay cannot hold them"
            )
        return number


@dataclass(frozen=True, slots=True)
class _Asked:
    """The request to free that an entry stands behind."""

    address: int = -1
    stack: int = -1
    time_us: int = 0

    def waited(self, address: int, stack: int) -> bool | None:
        """Say whether a free that completes now was requested in an earlier call.

        In one call both have one stack; None where no stack is recorded.
        """
        if address != self.address:
            return True
        return stack != self.stack if stack >= 0 and self.stack >= 0 else None


def _releases_without_stack(entries: dict[str, list[int]]) -> int:
    """Return how many calls gave segments back without a recorded stack."""
    calls, inside = 0, False
    for action, trims in zip(entries["action"], entries["trims"], strict=True):
        releases = action in SHRINKS and trims == TRIMS_UNKNOWN
        calls += releases and not inside
        # What waited for a stream comes back on the way, in the same call.
        inside = releases or (inside and action == _CODE["free_completed"])
    return calls


def _alive_before(entries: dict[str, list[int]]) -> dict[int, tuple[int, int, int]]:
    """Return size, stream and stack (unknown) of what is freed without having been allocated."""
    alloc, done, requested = (_CODE[n] for n in ("alloc", "free_completed", "free_requested"))
    found: dict[int, tuple[int, int, int]] = {}
    seen: set[int] = set()
    rows = zip(*(entries[n] for n in ("action", "addr", "size", "stream")), strict=True)
    for action, address, size, stream in rows:
        if action == alloc:
            seen.add(address)
        elif action in (done, requested) and address not in seen:
            seen.add(address)
            found[address] = (size, stream, -1)
    return found


def _alive_at_end(entries: dict[str, list[int]]) -> set[int]:
    """Return the addresses whose last allocation was recorded and not freed."""
    steps = (_CODE["alloc"], _CODE["free_completed"])
    rows = zip(entries["addr"], entries["action"], strict=True)
    last = {address: action for address, action in rows if action in steps}
    return {address for address, action in last.items() if action == _CODE["alloc"]}


def reserved_over_entries(file: SnapshotFile, device: int) -> tuple[NDArray[np.int64], int, int]:
    """Return reserved bytes after each entry, and the segments at most and at the end.

    The final map holds what is reserved at the end; what the history tells is taken back from
    there, so that a history which begins late is right all the same.
    """
    action = file.column(device, "entries", "action")
    size = file.column(device, "entries", "size")
    grows, shrinks = np.isin(action, GROWS), np.isin(action, SHRINKS)
    change = np.where(grows, size, 0) - np.where(shrinks, size, 0)
    after = np.cumsum(change)
    held = int(file.column(device, "segments", "size").sum())
    start = held - (int(after[-1]) if len(after) else 0)
    count = np.cumsum(grows.astype(np.int64) - shrinks.astype(np.int64))
    segments = len(file.column(device, "segments", "size"))
    first = segments - (int(count[-1]) if len(count) else 0)
    return after + start, first + int(count.max(initial=0)), segments
