"""RMM's memory resources, each under its default settings."""

from __future__ import annotations

from allocmark.allocators.rmm_resources.allocator import RmmAsync, RmmResource
from allocmark.system.message import Message

ALLOCATORS = (
    RmmResource("rmm-pool", "PoolMemoryResource", Message("RMM's pool")),
    RmmResource("rmm-arena", "ArenaMemoryResource", Message("RMM's arena")),
    RmmAsync("rmm-async", "CudaAsyncMemoryResource", Message("RMM over cudaMallocAsync")),
)
