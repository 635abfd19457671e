"""RMM's memory resources: its pool, its arenas, and its front over the driver's own pool.

Each has its default settings: the pool and the arenas begin with half of the free memory. They are
made by the native shim, which the timing loop calls, and by ``rmm.mr`` where there is none;
`setting` says so. Streams are left out, since not every release has the handle of one.

Source: RMM's Python API reference, module ``rmm.mr``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from allocmark.allocators.base import (
    Allocator,
    Capability,
    NativeCalls,
    PythonCalls,
    Stats,
    Tier,
    import_framework,
)
from allocmark.allocators.rmm_resources import shim
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.message import Text

_POOLED = frozenset({Capability.CACHE, Capability.RESTART, Capability.EXACT})


class RmmResource(Allocator):
    """One class of ``rmm.mr``, over a counted upstream, which is plain cudaMalloc."""

    framework = "rmm"
    tier = Tier.LIBRARY
    capabilities = _POOLED

    def __init__(self, name: str, resource: str, description: Text) -> None:
        super().__init__(name, configured_by=f"rmm.mr.{resource}", description=description)
        self._class = resource
        self._shim: shim.RmmShim | None = None
        self._why_no_shim = ""

    def prepare(self) -> None:
        import_framework("rmm.mr")
        self._locate()

    def open(self, device: int) -> None:
        self._mr = import_framework("rmm.mr")
        path = self._locate()
        runtime.set_device(device)
        self._shim = None if path is None else shim.RmmShim(path)
        self._live: dict[int, int] = {}
        self._allocated = self._peak_allocated = 0
        self._build()

    def setting(self) -> str | None:
        return f"called through rmm.mr ({self._why_no_shim})" if self._why_no_shim else None

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

    def native(self) -> NativeCalls | None:
        return None if self._shim is None else self._shim.native()

    def python_calls(self) -> PythonCalls:
        return PythonCalls(self._resource.allocate, self._resource.deallocate, sized=True)

    def stats(self) -> Stats:
        """Return requested bytes as we count them, and the upstream's counters."""
        upstream = self._counts()
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
        if self._shim is None:
            del self._resource, self._counts
        else:
            self._shim.drop()
        self._peak_allocated = 0
        self._build()

    def reset_peaks(self) -> None:
        self._peak_allocated = self._allocated

    def _locate(self) -> Path | None:
        try:
            return shim.build()
        except NotMeasurableError as error:
            self._why_no_shim = str(error)
            return None

    def _build(self) -> None:
        self._resource: Any
        self._counts: Callable[[], Any]
        if self._shim is not None:
            self._shim.make(self._class)
            self._resource, self._counts = self._shim, self._shim.counts
        else:
            upstream = self._mr.StatisticsResourceAdaptor(self._mr.CudaMemoryResource())
            self._resource = self._make(getattr(self._mr, self._class), upstream)
            self._counts = lambda: upstream.allocation_counts

    def _make(self, resource: Any, upstream: Any) -> Any:
        return resource(upstream)


class RmmAsync(RmmResource):
    """``CudaAsyncMemoryResource``: a pool of the driver's, which has no upstream to count."""

    driver_pool = True
    capabilities = _POOLED - {Capability.EXACT}

    def _make(self, resource: Any, upstream: Any) -> Any:
        return resource()

    def stats(self) -> Stats:
        """Return requested bytes as we count them: the resource keeps no counters."""
        return Stats(allocated_bytes=self._allocated, peak_allocated_bytes=self._peak_allocated)
