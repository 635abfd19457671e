"""Random programs with private pools, run, recorded and replayed in one process, on any driver.

``python pool_programs.py FOLDER COUNT`` fails with the first program whose replay differs.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from allocmark.allocators.torch_caching import NATIVE, TorchCaching
from allocmark.experiments.shared.event_replay import replay
from allocmark.recording.importers import reader

MIB = 1 << 20
Shape = Counter[tuple[int, int]]
"""How many segments of a size each pool holds: number of the pool, bytes."""
SIZES = st.sampled_from([1, 512, 3 * MIB // 2, 2 * MIB, 9 * MIB, 11 * MIB, 30 * MIB, 64 * MIB])
ALLOC, FREE = "alloc", "free"
PIECES = st.lists(st.tuples(st.sampled_from([ALLOC, ALLOC, FREE]), SIZES), min_size=1, max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("common"), st.just(0), PIECES),
    st.tuples(st.just("mempool"), st.integers(0, 1), PIECES),
    st.tuples(st.just("graph"), st.integers(0, 1), PIECES),
    st.tuples(st.just("shared"), st.just(0), PIECES),
    st.tuples(st.just("let go"), st.integers(0, 5), st.just([])),
    st.tuples(st.just("empty_cache"), st.just(0), st.just([])),
)


class Program:
    """One program: its pools, what it holds, and in which pool each of its blocks was allocated."""

    def __init__(self, told: bool) -> None:
        self.told = told
        self.held: list[Any] = []
        self.owners: dict[tuple[str, int], Any] = {}
        self.allocations: list[tuple[int, tuple[int, int]]] = []
        self.side = torch.cuda.Stream()

    def step(self, what: str, which: int, pieces: list[tuple[str, int]]) -> None:
        if what == "common":
            self._pieces(pieces, (0, 0))
        elif what == "mempool":
            pool = self.owners.setdefault((what, which), None) or torch.cuda.MemPool()
            self.owners[what, which] = pool
            with torch.cuda.use_mem_pool(pool):
                self._pieces(pieces, tuple(pool.id))
        elif what in ("graph", "shared"):
            self._capture(what, which, pieces)
        elif what == "let go":
            self._let_go(which)
        else:
            torch.cuda.empty_cache()

    def _capture(self, what: str, which: int, pieces: list[tuple[str, int]]) -> None:
        if (what, which) in self.owners and what == "graph":
            return
        graph = torch.cuda.CUDAGraph()
        handle = None
        if what == "shared":
            handle, graphs = self.owners.setdefault(
                (what, which), (torch.cuda.graph_pool_handle(), [])
            )
            graphs.append(graph)
        else:
            self.owners[what, which] = graph
        with torch.cuda.graph(graph, pool=handle, stream=self.side):
            self._pieces(pieces, None)
        own = tuple(graph.pool())
        self.allocations = [(at, own if pool is None else pool) for at, pool in self.allocations]

    def _let_go(self, which: int) -> None:
        """Let an owner go; where entries do not tell their pool, one of which torch still tells."""
        owners = sorted(self.owners)
        if not self.told:
            owners = [owner for owner in owners if owner[0] == "mempool"]
        if not owners:
            return
        owner = self.owners.pop(owners[which % len(owners)])
        if isinstance(owner, torch.cuda.MemPool):
            if not self.told:
                own = tuple(owner.id)
                where = dict(self.allocations)
                self.held = [block for block in self.held if where[block.data_ptr()] != own]
            return
        for graph in owner[1] if isinstance(owner, tuple) else [owner]:
            graph.reset()

    def let_all_go(self) -> None:
        """Free everything."""
        self.held.clear()
        self.told = True
        while self.owners:
            self._let_go(0)

    def _pieces(self, pieces: list[tuple[str, int]], pool: Any) -> None:
        for what, size in pieces:
            if what == ALLOC:
                self.held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
                self.allocations.append((self.held[-1].data_ptr(), pool))
            elif self.held:
                self.held.pop(size % len(self.held))


def with_pool_ids(snapshot: dict[str, Any], program: Program) -> None:
    """Let entries tell their pools, as torch 2.12 does: by what the program did."""
    entries = snapshot["device_traces"][0]
    own, common = iter([*program.allocations, (0, (0, 0))]), (0, 0)
    address, pool = next(own)
    new: list[Any] = []
    segments = {s["address"]: s["segment_pool_id"] for s in snapshot["segments"]}
    for entry in entries:
        entry["pool_id"] = common
        if entry["action"] == "segment_alloc":
            new = [entry]
        elif entry["action"] == "segment_free":
            entry["pool_id"] = segments.pop(entry["addr"], common)
        elif entry["action"] == "alloc":
            if entry["addr"] == address:
                entry["pool_id"] = pool
                address, pool = next(own)
            for segment in new:
                segment["pool_id"] = segments[segment["addr"]] = entry["pool_id"]
            new = []


def recorded(steps: list[Any], told: bool, file: Path) -> int:
    """Run a program and write its snapshot; return the peak of reserved bytes."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.memory._record_memory_history("all", stacks="python")
    program = Program(told)
    try:
        for step in steps:
            program.step(*step)
        snapshot = torch.cuda.memory._snapshot()
        peak: int = torch.cuda.max_memory_reserved()
        if told:
            with_pool_ids(snapshot, program)
        file.write_bytes(pickle.dumps(snapshot, 4))
        return peak
    finally:
        torch.cuda.memory._record_memory_history(None)
        program.let_all_go()
        gc.collect()
        torch.cuda.empty_cache()


def replayed(file: Path, allocator: TorchCaching) -> tuple[int, int, Shape, Shape]:
    """Replay a snapshot; return both peaks, and segments by pool there and here."""
    recording = reader.read(file)
    found: Shape = Counter()

    def look(done: object, held: object) -> None:
        pools = allocator.private_pools()
        for segment in torch.cuda.memory_snapshot():
            number = pools.get(tuple(segment["segment_pool_id"]), 0)
            found[number, segment["total_size"]] += 1

    allocator.restart()
    done = replay(recording.trace, allocator, at_end=look)
    assert done.completed
    released = recording.trace.released_pools(len(recording.trace))
    # Without a map nothing was left at the end.
    segments = [] if recording.end_map is None else recording.end_map.segments.tolist()
    there = Counter(
        (0 if pool in released else pool, size) for _address, size, _stream, pool in segments
    )
    peak = allocator.stats().peak_reserved_bytes or 0
    return recording.counted["peak_reserved_bytes"], peak, there, found


def main(folder: Path, count: int) -> None:
    allocator = TorchCaching(NATIVE)
    allocator.open(0)

    @settings(
        max_examples=count,
        derandomize=True,  # Every run tries the same programs.
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(steps=st.lists(STEPS, min_size=1, max_size=12), told=st.booleans())
    def agree(steps: list[Any], told: bool) -> None:
        file = folder / "s.pickle"
        if not any(what == ALLOC for *_, pieces in steps for what, _ in pieces):
            return
        peak = recorded(steps, told, file)
        was, now, there, here = replayed(file, allocator)
        assert (was, now) == (peak, peak), (steps, told)
        assert there == here, (steps, told)

    agree()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
