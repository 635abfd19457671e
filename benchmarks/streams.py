"""Streams: memory held and time spent by use and number of streams, private pools, threads."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell

from .common import CACHE_TIMEOUT_S, measured

ALLOCATORS = [
    "cuda-malloc-async-0",
    "cuda-malloc-async-max",
    "torch-native",
    "torch-expandable",
    "torch-async",
]
USES = ["private", "handoff", "one-shot"]
STREAMS = [1, 2, 4, 8, 16]
BLOCK_BYTES = 1 << 20


class _Streams:
    version = "1"

    def setup_cache(self) -> str:
        return measured("streams", ["reserved_bytes", "pair_ns", "held_bytes", "thread_pair_ns"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]


class Tasks(_Streams):
    """Tasks that take turns over streams, with blocks of one size."""

    params = [ALLOCATORS, USES, STREAMS]
    param_names = ["allocator", "use", "streams"]

    def track_reserved(self, cells: str, allocator: str, use: str, streams: int) -> Cell:
        return read_cell(
            cells, allocator, "reserved_bytes", use=use, streams=streams, bytes=BLOCK_BYTES
        )

    track_reserved.unit = "bytes"  # type: ignore[attr-defined]

    def track_pair(self, cells: str, allocator: str, use: str, streams: int) -> Cell:
        return read_cell(cells, allocator, "pair_ns", use=use, streams=streams, bytes=BLOCK_BYTES)

    track_pair.type = "time"  # type: ignore[attr-defined]
    track_pair.unit = "seconds"  # type: ignore[attr-defined]


class PrivatePools(_Streams):
    """What MemPool and CUDA graphs hold back."""

    params = [
        ["torch-native", "torch-expandable"],
        ["mempool", "graph"],
        ["live", "dropped", "emptied", "released"],
    ]
    param_names = ["allocator", "pool", "stage"]
    unit = "bytes"

    def track_held(self, cells: str, allocator: str, pool: str, stage: str) -> Cell:
        return read_cell(cells, allocator, "held_bytes", pool=pool, stage=stage)


class Threads(_Streams):
    """A pair of cached calls by threads without the GIL: constant where nothing contends."""

    params = [ALLOCATORS, [1, 2, 4, 8], ["own", "shared"]]
    param_names = ["allocator", "threads", "stream"]
    type = "time"
    unit = "seconds"

    def track_pair(self, cells: str, allocator: str, threads: int, stream: str) -> Cell:
        return read_cell(cells, allocator, "thread_pair_ns", threads=threads, stream=stream)
