"""Plain cudaMalloc and cudaFree: what every caching allocator exists to avoid."""

from __future__ import annotations

from allocmark.allocators.base import Allocator, Capability, NativeCalls, Stats
from allocmark.cuda import runtime
from allocmark.system.message import Message


class CudaMalloc(Allocator):
    """Each request goes to the driver, each free waits for the device and returns the memory."""

    framework = "cuda"
    tracked = True
    capabilities = frozenset({Capability.RESTART, Capability.EXACT})

    def open(self, device: int) -> None:
        runtime.set_device(device)
        self._live: dict[int, int] = {}
        self._allocs = self._frees = self._allocated = self._peak = 0

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        block = runtime.malloc(size_bytes)
        self._live[block] = size_bytes
        self._allocs += 1
        self._allocated += size_bytes
        self._peak = max(self._peak, self._allocated)
        return block

    def free(self, block: int, stream: int = 0) -> None:
        runtime.free(block)
        self._allocated -= self._live.pop(block)
        self._frees += 1

    def stats(self) -> Stats:
        """Return what was asked for: the driver tells nobody what it holds."""
        return Stats(
            allocated_bytes=self._allocated,
            peak_allocated_bytes=self._peak,
            segments=len(self._live),
            driver_allocs=self._allocs,
            driver_frees=self._frees,
            retries=0,
        )

    def reset_peaks(self) -> None:
        self._peak = self._allocated

    def restart(self) -> None:
        for block in list(self._live):
            self.free(block)
        self._allocs = self._frees = self._peak = 0

    def native(self) -> NativeCalls:
        return NativeCalls("runtime", runtime.address("cudaMalloc"), runtime.address("cudaFree"))


ALLOCATORS = (
    CudaMalloc(
        "cuda-malloc",
        order=0,
        description=Message("plain cudaMalloc and cudaFree"),
        configured_by=Message("nothing: there is nothing to set"),
    ),
)
