"""BFC, TensorFlow's best-fit allocator with coalescing: greedy, with growth, or within a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from allocmark.allocators.base import Capability, Stats
from allocmark.allocators.tensorflow_gpu import shim
from allocmark.allocators.tensorflow_gpu.allocator import TensorFlowAllocator
from allocmark.allocators.tensorflow_gpu.framework import Mode
from allocmark.cuda import runtime
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB, format_bytes

_PAGE_BYTES = 2 * MIB
"""What the driver hands out: a region is rounded up to whole pages, and the last one it keeps."""


class Bfc(TensorFlowAllocator):
    """The best-fit allocator with coalescing, in a region of its own or in growing ones."""

    capabilities = TensorFlowAllocator.capabilities | {Capability.EXACT}
    map_meter = "chunk map, by the native shim"

    def open(self, device: int) -> None:
        self._fresh: int | None = None
        self._unbegun = False
        self._end = 0
        super().open(device)

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        if self._unbegun:
            self._begin()
        block = super().alloc(size_bytes, stream)
        if block + size_bytes > self._end:
            self._end = block + size_bytes
        return block

    def restart(self) -> None:
        """Begin with a fresh allocator that holds nothing; what the live one holds stays its own.

        A fixed region is as large as its limit, or as what is free when the first block is asked
        for, if that is less.
        """
        self._free_all()
        if self._shim is None:
            self._restart_public()
            return
        self._replace(self._total_bytes)
        self._end = 0
        self._unbegun = self.mode is not Mode.GROWTH

    def largest_free_bytes(self) -> int | None:
        # Its AllocatorStats have a field for this that BFC leaves at 0.
        if self._shim is None:
            return None
        return max((c.size_bytes for c in self._shim.chunks() if not c.in_use), default=0)

    def _open_shim(self, opened: shim.Shim) -> None:
        super()._open_shim(opened)
        self._total_bytes = opened.stats()["bytes_limit"] or 0

    def _stats(self, counters: Mapping[str, int | None]) -> Stats:
        """Return BFC's counters, and what was seen at its border to the driver.

        A retry is what torch calls one: free regions are released, and the driver called again.
        """
        return replace(
            super()._stats(counters),
            segments=counters["regions"],
            driver_allocs=counters["granted"],
            driver_frees=counters["returns"],
            retries=counters["collections"],
        )

    def used_extent_bytes(self) -> int | None:
        if self._shim is None or self.mode is Mode.GROWTH:
            return None
        regions = self._shim.regions()
        return self._end - regions[0][0] if regions and self._end else None

    def driver_requests(self) -> list[tuple[int, int]] | None:
        return None if self._shim is None else self._shim.border()

    def segment_map(self) -> list[tuple[int, int]] | None:
        if self._shim is None:
            return None
        chunks = self._shim.chunks()
        return [
            (size, sum(c.size_bytes for c in chunks if c.in_use and 0 <= c.address - start < size))
            for start, size in self._shim.regions()
        ]

    def _begin(self) -> None:
        """Size a fixed region by what there is: one above it would be cut by tenths."""
        self._unbegun = False
        free_bytes = max(0, runtime.memory_info()[0] // _PAGE_BYTES - 1) * _PAGE_BYTES
        if free_bytes >= self._total_bytes:
            return
        if self.mode is Mode.GREEDY:
            raise NotMeasurableError(
                f"{self.name} takes what is free when its process starts, and "
                f"{format_bytes(self._total_bytes - free_bytes)} of that are gone: "
                "it needs a process of its own for each size of the card"
            )
        self._replace(free_bytes)

    def _replace(self, total_bytes: int) -> None:
        opened = self.live_shim
        if self._fresh is not None:
            opened.drop(self._fresh)
        self._fresh = opened.fresh(self._device, total_bytes, int(self.mode is Mode.GROWTH))
        opened.use(self._fresh)

    def _restart_public(self) -> None:
        """One region, all of it free, is clean; regions that have grown stay."""
        if self.mode is Mode.GROWTH and self._tensors:
            raise NotMeasurableError(
                f"{self.name} starts clean only once in a process without its native shim "
                f"({self._why_no_shim})"
            )
        self.reset_peaks()
