"""Streams: memory held and time spent by use and number of streams, private pools, threads."""

from __future__ import annotations

from allocmark.allocators import names
from allocmark.allocators.base import Capability, Tier
from allocmark.asv.cells import Cell, Question
from allocmark.schema.metrics import streams as metrics
from allocmark.system.units import MIB

ALLOCATORS = names(tier=Tier.BASE, tracked=True, having=Capability.STREAMS)
WITH_POOLS = names(tier=Tier.BASE, tracked=True, having=Capability.PRIVATE_POOLS)


class Tasks(Question):
    """Tasks that take turns over streams, with blocks of one size."""

    experiment = metrics.EXPERIMENT
    params = [ALLOCATORS, list(metrics.USES), [1, 2, 4, 8, 16]]
    param_names = ["allocator", "use", "streams"]

    def track_reserved(self, allocator: str, use: str, streams: int) -> Cell:
        return self.cell(allocator, metrics.RESERVED_BYTES, use=use, streams=streams, bytes=MIB)

    track_reserved.unit = "bytes"  # type: ignore[attr-defined]

    def track_pair(self, allocator: str, use: str, streams: int) -> Cell:
        return self.cell(allocator, metrics.PAIR_NS, use=use, streams=streams, bytes=MIB)

    track_pair.type = "time"  # type: ignore[attr-defined]
    track_pair.unit = "seconds"  # type: ignore[attr-defined]


class PrivatePools(Question):
    """What MemPool and CUDA graphs hold back."""

    experiment = metrics.EXPERIMENT
    params = [WITH_POOLS, list(metrics.POOLS), list(metrics.STAGES)]
    param_names = ["allocator", "pool", "stage"]
    unit = "bytes"

    def track_held(self, allocator: str, pool: str, stage: str) -> Cell:
        return self.cell(allocator, metrics.HELD_BYTES, pool=pool, stage=stage)


class Threads(Question):
    """A pair of cached calls by threads without the GIL: constant where nothing contends."""

    experiment = metrics.EXPERIMENT
    params = [ALLOCATORS, [1, 2, 4, 8], list(metrics.THREAD_STREAMS)]
    param_names = ["allocator", "threads", "stream"]
    type = "time"
    unit = "seconds"

    def track_pair(self, allocator: str, threads: int, stream: str) -> Cell:
        return self.cell(allocator, metrics.THREAD_PAIR_NS, threads=threads, stream=stream)
