"""RMM's memory resources: its pool, its arenas, and its front over the driver's own pool.

Each is used as it comes: the pool and the arenas begin with half of the free memory. Streams are
left out, since not every release has the handle of one.

Source: RMM's Python API reference, module ``rmm.mr``.
"""

from __future__ import annotations

from typing import Any

from allocmark.allocators.base import Allocator, Capability, Stats, Tier, import_framework
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.system.message import Message, Text

_POOLED = frozenset({Capability.CACHE, Capability.RESTART, Capability.EXACT})


class RmmResource(Allocator):
    """One class of ``rmm.mr``, over a counted upstream, which is plain cudaMalloc."""

    framework = "rmm"
    tier = Tier.LIBRARY
    capabilities = _POOLED

    def __init__(self, name: str, resource: str, description: Text) -> None:
        super().__init__(name, configured_by=f"rmm.mr.{resource}", description=description)
        self._class = resource

    def prepare(self) -> None:
        import_framework("rmm.mr")

    def open(self, device: int) -> None:
        self._mr = import_framework("rmm.mr")
        runtime.set_device(device)
        self._live: dict[int, int] = {}
        self._allocated = self._peak_allocated = 0
        self._build()

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        try:
            block: int = self._resource.allocate(size_bytes)
        except MemoryError as error:  # How RMM's bad_alloc arrives in Python.
            raise DeviceOutOfMemoryError(str(error)) from None
        self._live[block] = size_bytes
        self._allocated += size_bytes
        self._peak_allocated = max(self._peak_allocated, self._allocated)
        return block

    def free(self, block: int, stream: int = 0) -> None:
        size_bytes = self._live.pop(block)
        self._allocated -= size_bytes
        self._resource.deallocate(block, size_bytes)

    def stats(self) -> Stats:
        """Return requested bytes as we count them, and the upstream's counters."""
        upstream = self._upstream.allocation_counts
        return Stats(
            allocated_bytes=self._allocated,
            reserved_bytes=upstream.current_bytes,
            peak_allocated_bytes=self._peak_allocated,
            peak_reserved_bytes=upstream.peak_bytes,
            segments=upstream.current_count,
            driver_allocs=upstream.total_count,
            driver_frees=upstream.total_count - upstream.current_count,
        )

    def restart(self) -> None:
        for block in list(self._live):
            self.free(block)
        self.synchronize()
        # The old resource gives its memory back before the new one asks for its share.
        del self._resource, self._upstream
        self._peak_allocated = 0
        self._build()

    def reset_peaks(self) -> None:
        self._peak_allocated = self._allocated

    def _build(self) -> None:
        self._upstream = self._mr.StatisticsResourceAdaptor(self._mr.CudaMemoryResource())
        self._resource = self._make(getattr(self._mr, self._class))

    def _make(self, resource: Any) -> Any:
        return resource(self._upstream)


class RmmAsync(RmmResource):
    """``CudaAsyncMemoryResource``: a pool of the driver's, which has no upstream to count."""

    driver_pool = True
    capabilities = _POOLED - {Capability.EXACT}

    def _make(self, resource: Any) -> Any:
        return resource()

    def stats(self) -> Stats:
        """Return requested bytes as we count them: the resource keeps no counters."""
        return Stats(allocated_bytes=self._allocated, peak_allocated_bytes=self._peak_allocated)


ALLOCATORS = (
    RmmResource("rmm-pool", "PoolMemoryResource", Message("RMM's pool")),
    RmmResource("rmm-arena", "ArenaMemoryResource", Message("RMM's arena")),
    RmmAsync("rmm-async", "CudaAsyncMemoryResource", Message("RMM over cudaMallocAsync")),
)
