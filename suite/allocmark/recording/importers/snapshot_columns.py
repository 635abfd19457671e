"""A torch snapshot's dictionaries as columns of numbers, checked entry by entry.

Sources: ``torch.cuda.memory._snapshot`` and ``torch/csrc/cuda/memory_snapshot.cpp`` of the
releases 2.1 to 2.14. What differs between them: ``time_us`` came in 2.2, ``allocator_settings``
in 2.1, a block's ``address`` and ``requested_size`` in 2.1; what waits for a stream was called
``active_pending_free`` before it was ``active_awaiting_free``; an entry's ``pool_id`` came in 2.12.
A list without more is what ``memory_snapshot()`` returns: segments, no history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocmark.recording.importers.frames import chosen
from allocmark.recording.importers.frames import trims as leads_to_trim
from allocmark.recording.importers.restricted_pickle import shown

ACTIONS = (
    *("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free"),
    *("segment_map", "segment_unmap", "oom", "snapshot", "other"),
)
"""What an entry's code stands for."""
TRIMS_UNKNOWN = -1
STATES = ("inactive", "active_allocated", "active_awaiting_free")
_OLD_STATES = {"active_pending_free": "active_awaiting_free"}

_FEWEST_BYTES_OF_AN_ENTRY = 12
"""Less than any entry takes in a file: entries that are one object many times are no history."""
_LARGEST = 1 << 56
_WORDS = {"addr": "the address", "size": "the size"}
Columns = dict[str, NDArray[np.int64]]


class NotASnapshotError(Exception):
    """Plain data, but not a snapshot; the message says what it lacks."""


def convert(data: Any, file_bytes: int) -> tuple[dict[str, Any], dict[str, NDArray[np.int64]]]:
    """Return a snapshot's header (plain values) and its columns, ``<device>.<table>.<column>``.

    Tables: ``entries`` (action, addr, size, stream, time_us, stack, trims, pool), ``segments``
    (address, size, stream, pool, expandable), ``blocks`` (address, size, requested, state, stream,
    stack).
    A stack is the place in the header's ``stacks``, -1 for none; ``trims`` says whether it leads
    through ``empty_cache`` (0 or 1), or that no stack was recorded. A private pool is its place in
    the header's ``pools`` and one; 0 is the common pool, -1 stands where an entry tells none.
    Raises `NotASnapshotError`.
    """
    if isinstance(data, list):
        data = {"segments": data}
    if not isinstance(data, dict) or not isinstance(data.get("segments"), (list, tuple)):
        raise NotASnapshotError("it has no list of segments")
    reader = _Reader(file_bytes)
    try:
        for segment in data["segments"]:
            reader.segment(segment)
        for device, entries in enumerate(data.get("device_traces") or ()):
            reader.entries(device, entries)
        return reader.header(data), reader.columns()
    except KeyError as error:
        raise NotASnapshotError(f"a part of it has no {shown(error.args[0], 40)}") from error
    except (TypeError, AttributeError, ValueError, OverflowError, IndexError) as error:
        raise NotASnapshotError("a part of it is of another kind than torch writes") from error


class _Stacks:
    """Different stacks, each kept once."""

    def __init__(self) -> None:
        self.kept: list[list[str]] = []
        self.trims: list[bool] = []
        self._place: dict[tuple[int, ...], int] = {}
        self._by_text: dict[tuple[bool, tuple[str, ...]], int] = {}

    def place(self, frames: Any) -> int:
        if not frames:
            return -1
        key = tuple(map(id, frames))  # Frames are shared between stacks, and outlive this reader.
        if key not in self._place:
            self._place[key] = self._new(frames)
        return self._place[key]

    def _new(self, frames: Sequence[Mapping[str, Any]]) -> int:
        text = tuple(chosen(frames))
        trims = leads_to_trim(frames)
        if (trims, text) not in self._by_text:
            self._by_text[trims, text] = len(self.kept)
            self.kept.append(list(text))
            self.trims.append(trims)
        return self._by_text[trims, text]


class _Reader:
    def __init__(self, file_bytes: int) -> None:
        self._most = file_bytes // _FEWEST_BYTES_OF_AN_ENTRY + 1
        self._seen = 0
        self._stacks = _Stacks()
        self._pools: dict[tuple[int, int], int] = {}
        self._segments: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
        self._blocks: defaultdict[int, list[tuple[int, ...]]] = defaultdict(list)
        self._columns: Columns = {}
        self._devices: dict[int, int] = {}
        self._others: Counter[str] = Counter()

    def segment(self, segment: Mapping[str, Any]) -> None:
        device = int(segment.get("device", 0))
        pool = self._pool(segment.get("segment_pool_id"))
        address, stream = _number(segment["address"]), _number(segment["stream"])
        expandable = int(bool(segment.get("is_expandable", False)))
        size = _number(segment["total_size"])
        end = address + size
        self._segments[device].append((address, size, stream, pool, expandable))
        blocks = self._blocks[device]
        self._count(len(segment["blocks"]) + 1)
        at = address
        for block in segment["blocks"]:
            at = _number(block.get("address", at))
            size = _number(block["size"])
            requested = _number(block.get("requested_size", size))
            if not address <= at <= at + size <= end:
                raise NotASnapshotError("a block of it lies outside its segment")
            state = STATES.index(_OLD_STATES.get(block["state"], block["state"]))
            blocks.append((at, size, requested, state, stream, self._stack_of(block)))
            at += size

    def _pool(self, given: Any) -> int:
        first, second = map(_number, given or (0, 0))
        if not first and not second:
            return 0
        return self._pools.setdefault((first, second), len(self._pools) + 1)

    def _stack_of(self, block: Mapping[str, Any]) -> int:
        frames = block.get("frames")
        if frames is None and block.get("history"):  # Before 2.1.
            frames = block["history"][0].get("frames")
        return self._stacks.place(frames)

    def entries(self, device: int, entries: Sequence[Mapping[str, Any]]) -> None:
        if not entries:
            return
        self._count(len(entries))
        codes = {name: code for code, name in enumerate(ACTIONS)}
        other = codes["other"]
        actions = [codes.get(entry["action"], other) for entry in entries]
        unknown = zip(entries, actions, strict=True)
        self._others.update(shown(e["action"]) for e, action in unknown if action == other)
        place = self._stacks.place
        columns = {
            "action": actions,
            "addr": [e["addr"] if "addr" in e else e.get("device_free", 0) for e in entries],
            "size": [e["size"] for e in entries],
            "stream": [e["stream"] for e in entries],
            "time_us": [e.get("time_us", 0) for e in entries],
            "stack": [place(e.get("frames")) for e in entries],
            "pool": [self._pool(e["pool_id"]) if "pool_id" in e else -1 for e in entries],
        }
        for name, values in columns.items():
            column = _column(values)
            if name in _WORDS and not 0 <= column.min() <= column.max() < _LARGEST:
                what = _WORDS[name]
                raise NotASnapshotError(f"{what} of an entry is below zero or beyond all memory")
            self._columns[f"{device}.entries.{name}"] = column
        # Without frames: a call from no Python (autograd's threads) is torch's own. One whose stack
        # was not recorded may be anybody's.
        recorded = np.array([e.get("frames") is not None for e in entries])
        by_stack = np.array([*self._stacks.trims, 0])[self._columns[f"{device}.entries.stack"]]
        without = self._columns[f"{device}.entries.stack"] < 0
        trims = np.where(without & ~recorded, TRIMS_UNKNOWN, by_stack)
        self._columns[f"{device}.entries.trims"] = trims.astype(np.int64)
        self._devices[device] = len(entries)

    def header(self, data: Mapping[str, Any]) -> dict[str, Any]:
        devices = {*self._devices, *self._segments}
        return {
            "devices": {str(d): self._devices.get(d, 0) for d in sorted(devices)},
            "stacks": self._stacks.kept,
            "pools": list(self._pools),
            "settings": _mapping(data, "allocator_settings"),
            "allocmark": _mapping(data, "allocmark"),
            "other_actions": self._others,
        }

    def columns(self) -> Columns:
        segments = ("address", "size", "stream", "pool", "expandable")
        blocks = ("address", "size", "requested", "state", "stream", "stack")
        tables = (("segments", segments, self._segments), ("blocks", blocks, self._blocks))
        for table, names, rows_of in tables:
            for device, rows in rows_of.items():
                values = zip(*rows, strict=True) if rows else [()] * len(names)
                for name, column in zip(names, values, strict=True):
                    self._columns[f"{device}.{table}.{name}"] = _column(column)
        return self._columns

    def _count(self, more: int) -> None:
        self._seen += more
        if self._seen > self._most:
            raise NotASnapshotError("it names more entries than its bytes can hold")


def _mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return one of the dictionaries beside the segments as plain values, empty where missing."""
    found = data.get(name) or {}
    if not isinstance(found, dict):
        raise NotASnapshotError(f"{name} of it is no dictionary")
    return dict(_plain(found))


def _number(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise NotASnapshotError(f"{shown(value, 40)} stands where an address or a size should")
    return value


def _column(values: Sequence[int]) -> NDArray[np.int64]:
    column = np.array(values)
    if len(column) and column.dtype.kind not in "iub":
        raise NotASnapshotError("something else than a number of 64 bits stands where one should")
    return column.astype(np.int64)


def _plain(value: Any, depth: int = 3) -> Any:
    """Return what of a value can be written as JSON, not too deep."""
    if isinstance(value, dict) and depth:
        return {shown(k): _plain(v, depth - 1) for k, v in list(value.items())[:200]}
    if isinstance(value, (list, tuple)) and depth:
        return [_plain(item, depth - 1) for item in value[:200]]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    is_number = isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 62)
    return value if is_number or value is None else shown(value, 4000)
