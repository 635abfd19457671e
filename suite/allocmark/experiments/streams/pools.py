"""Private pools of torch: what a memory pool or a captured graph holds back, and until when."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from allocmark.allocators.base import Allocator, Capability
from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.shared.event_replay import restart
from allocmark.schema.metrics import streams as metrics
from allocmark.system.units import MIB

POOL_BLOCKS = 4
POOL_BLOCK_BYTES = 32 * MIB


def cells() -> Iterator[Cell]:
    """Yield the axes of every cell with its metric."""
    for pool in metrics.POOLS:
        for stage in metrics.STAGES:
            yield {"pool": pool, "stage": stage}, (metrics.HELD_BYTES,)


def measure(allocator: Allocator, recorder: Recorder) -> None:
    """Record what each kind of pool holds at each stage."""
    for pool, make in _MAKERS.items():
        held: dict[str, int] = {}
        why = "not reached"
        if Capability.PRIVATE_POOLS not in allocator.capabilities:
            why = str(allocator.lacks(Capability.PRIVATE_POOLS))
        else:
            restart(allocator)
            try:
                _follow(allocator, make, held)
            except Exception as error:
                why = in_words(error)
                recorder.failure(f"private pool: {pool}", why)
        meter = f"counters of {allocator.framework}"
        for stage in metrics.STAGES:
            axes = {"pool": pool, "stage": stage}
            if stage in held:
                recorder.reading(metrics.HELD_BYTES, meter, axes, float(held[stage]))
            else:
                recorder.figure(metrics.HELD_BYTES.missing(why, axes))


def _follow(
    allocator: Allocator, make: Callable[[Allocator], tuple[Any, list[Any]]], held: dict[str, int]
) -> None:
    before = allocator.stats().reserved_bytes or 0

    def read(stage: str) -> None:
        allocator.synchronize()
        held[stage] = (allocator.stats().reserved_bytes or 0) - before

    owner, blocks = make(allocator)
    read(metrics.LIVE)
    blocks.clear()
    read(metrics.DROPPED)
    allocator.trim()
    read(metrics.EMPTIED)
    del owner
    gc.collect()
    allocator.trim()
    read(metrics.RELEASED)


def _memory_pool(allocator: Allocator) -> tuple[Any, list[Any]]:
    torch = import_torch()
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        blocks = [allocator.op(POOL_BLOCK_BYTES) for _ in range(POOL_BLOCKS)]
    return pool, blocks


def _graph(allocator: Allocator) -> tuple[Any, list[Any]]:
    torch = import_torch()
    graph = torch.cuda.CUDAGraph()
    blocks: list[Any] = []
    with torch.cuda.graph(graph):
        for _ in range(POOL_BLOCKS):
            block: Any = allocator.op(POOL_BLOCK_BYTES)
            block.zero_()
            blocks.append(block)
    del block
    graph.replay()
    return graph, blocks


_MAKERS: Mapping[str, Callable[[Allocator], tuple[Any, list[Any]]]] = {
    metrics.MEMPOOL: _memory_pool,
    metrics.GRAPH: _graph,
}
