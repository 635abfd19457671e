"""Which branch each request of a workload took, from torch's history of one run.

The history gives the address of each block and each segment, not whether a larger one was cut: a
map of the blocks is kept beside it by torch's rules, and held against torch's own at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.shared.event_replay import Replay, Script, open_streams, replay
from allocmark.experiments.shared.memory_fraction import MemoryFraction
from allocmark.schema.figure import Kind
from allocmark.schema.metrics import request_path as metrics
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB
from allocmark.workloads import catalog

_METER = "torch's history"
_MOST_ENTRIES = 20_000_000
_ROUNDING = 512
_SMALL = MIB
"""Up to here a request is of the small pool, whose rests are cut off from 512 B on; in the large
pool only more than this."""


def measure_workload(workload: str, allocator: Allocator, device: int, recorder: Recorder) -> None:
    """Run it in each memory and send how many of its requests took each branch."""
    script = Script.of(catalog.load(workload))
    open_streams(script, allocator)
    for memory, ratio in metrics.MEMORIES.items():
        allowed = None if ratio is None else round(ratio * script.peak_requested_bytes)
        limit = MemoryFraction(allocator, allowed, None, 0)
        limit.within(None)
        try:
            counts = _counted(script, allocator, device)
        finally:
            limit.lift()
        # What a pending free keeps from reuse depends on the GPU's pace.
        kind: Kind = "sampled" if script.records_streams else "exact"
        for branch in metrics.BRANCHES:
            place = {"workload": workload, "memory": memory, "branch": branch}
            value = counts[branch]
            recorder.figure(
                metrics.BRANCH_REQUESTS.figure(_METER, place, value, [value], kind=kind)
            )


def _counted(script: Script, allocator: Allocator, device: int) -> Counter[str]:
    memory: Any = import_torch().cuda.memory
    allocator.restart()
    found: list[Mapping[str, Any]] = []
    retries: list[int] = []

    def at_end(result: Replay, held: object) -> None:
        found.append(memory._snapshot())
        retries.append(allocator.stats().retries or 0)

    memory._record_memory_history("all", context=None, stacks="python", max_entries=_MOST_ENTRIES)
    try:
        replay(script, allocator, at_end=at_end)
    finally:
        memory._record_memory_history(None)
    (snapshot,) = found
    blocks = BlockMap()
    counts = blocks.follow(snapshot["device_traces"][device])
    if blocks.free != _free_blocks(snapshot["segments"]):
        raise NotMeasurableError("the block map of its history is not the one that torch shows")
    counts[metrics.RETRY] = retries[0]
    return counts


def _free_blocks(segments: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    return {
        block["address"]: block["size"]
        for segment in segments
        for block in segment["blocks"]
        if block["state"] == "inactive"
    }


class BlockMap:
    """Free and live blocks by address, as a history goes on."""

    def __init__(self) -> None:
        self.free: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # Where a free block ends, to where it begins.
        self._live: dict[int, int] = {}
        self._segments: set[int] = set()

    def follow(self, history: Sequence[Mapping[str, Any]]) -> Counter[str]:
        """Return how many requests took each branch, but for retries.

        Raises `NotMeasurableError` where a block lies where the map has none.
        """
        counts: Counter[str] = Counter()
        new, freed = -1, -1
        for entry in history:
            action, address, size = entry["action"], entry.get("addr", 0), entry.get("size", 0)
            if freed >= 0:
                counts[metrics.PENDING] += (action, address) != ("free_completed", freed)
                freed = -1
            if action == "alloc":
                counts[metrics.REQUESTS] += 1
                cut = self._take(address, size)
                if address == new:
                    counts[metrics.NEW_CUT if cut else metrics.NEW] += 1
                else:
                    counts[metrics.CUT if cut else metrics.WHOLE] += 1
                new = -1
            elif action == "free_requested":
                freed = address
            elif action == "free_completed":
                self._give(address)
            elif action == "segment_alloc":
                self._segments.add(address)
                self._put(address, size)
                new = address
            elif action == "segment_free":
                self._segments.discard(address)
                self._drop(address)
            elif action == "oom":
                counts[metrics.REQUESTS] += 1
                counts[metrics.OOM] += 1
        return counts

    def _take(self, address: int, size: int) -> bool:
        """Take a block for a request; returns whether what was free there was cut."""
        if address not in self.free:
            raise NotMeasurableError("its history has a block where none was free")
        rounded = max(_ROUNDING, -(-size // _ROUNDING) * _ROUNDING)
        whole = self._drop(address)
        rest = whole - rounded
        cut = rest >= _ROUNDING if rounded <= _SMALL else rest > _SMALL
        self._live[address] = rounded if cut else whole
        if cut:
            self._put(address + rounded, rest)
        return cut

    def _give(self, address: int) -> None:
        """Free a block and merge it with free neighbours of its segment."""
        size = self._live.pop(address)
        after = address + size
        if after in self.free and after not in self._segments:
            size += self._drop(after)
        if address not in self._segments and address in self._ends:
            before = self._ends[address]
            size += self._drop(before)
            address = before
        self._put(address, size)

    def _put(self, address: int, size: int) -> None:
        self.free[address] = size
        self._ends[address + size] = address

    def _drop(self, address: int) -> int:
        size = self.free.pop(address)
        del self._ends[address + size]
        return size
