"""CuPy's default memory pool.

Source: CuPy's user guide, "Memory Management" (``cupy.cuda.MemoryPool``, ``set_allocator``).
"""

from __future__ import annotations

from typing import Any

from allocmark.allocators.base import (
    Allocator,
    Capability,
    PythonCalls,
    Stats,
    Tier,
    import_framework,
)
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.message import Message


class CupyPool(Allocator):
    """A ``cupy.cuda.MemoryPool`` over cudaMalloc, as CuPy sets one up by default.

    It is a pool of our own only so that its requests to the driver can be counted.
    """

    framework = "cupy"
    tier = Tier.LIBRARY
    description = Message("CuPy's memory pool")
    # Its requests to the driver are not the same in each run.
    capabilities = frozenset(
        {
            Capability.CACHE,
            Capability.TRIM,
            Capability.STREAMS,
            Capability.OP,
            Capability.RESTART,
        }
    )

    def prepare(self) -> None:
        import_framework("cupy")

    def open(self, device: int) -> None:
        cupy = self._cupy = import_framework("cupy")
        if not cupy.cuda.is_available():
            raise NotMeasurableError("cupy finds no usable GPU (cupy.cuda.is_available() is no)")
        cupy.cuda.Device(device).use()
        runtime.set_device(device)
        self._streams: list[Any] = [cupy.cuda.Stream.null]
        self._live: dict[int, Any] = {}
        self._driver_allocs = self._peak_reserved = 0
        self._pool = cupy.cuda.MemoryPool(self._from_driver)
        cupy.cuda.set_allocator(self._pool.malloc)

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        self.stream_handle(stream)
        try:
            # The pool keeps an arena for each stream, and takes the current one's.
            with self._streams[stream]:
                memory = self._pool.malloc(size_bytes)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise DeviceOutOfMemoryError(str(error)) from None
        block: int = memory.ptr
        self._live[block] = memory
        return block

    def free(self, block: int, stream: int = 0) -> None:
        del self._live[block]  # The last reference: the block returns to its arena.

    def stream_handle(self, stream: int) -> int:
        while stream >= len(self._streams):
            self._streams.append(self._cupy.cuda.Stream(non_blocking=True))
        handle: int = self._streams[stream].ptr
        return handle

    def stats(self) -> Stats:
        """Return the pool's counters; it counts no frees, and no peak of what is used."""
        return Stats(
            allocated_bytes=self._pool.used_bytes(),
            reserved_bytes=self._pool.total_bytes(),
            peak_reserved_bytes=self._peak_reserved,
            driver_allocs=self._driver_allocs,
        )

    def reset_peaks(self) -> None:
        self._peak_reserved = self._pool.total_bytes()

    def trim(self) -> None:
        self._pool.free_all_blocks()

    def restart(self) -> None:
        self._live.clear()
        self.synchronize()
        self.trim()
        self._driver_allocs = 0
        self.reset_peaks()

    def python_calls(self) -> PythonCalls:
        return PythonCalls(self._pool.malloc)

    def op(self, size_bytes: int) -> Any:
        return self._cupy.empty(size_bytes, dtype=self._cupy.uint8)

    def _from_driver(self, size_bytes: int) -> Any:
        """Serve the pool where it has nothing that fits: only here its total grows."""
        memory = self._cupy.cuda.MemoryPointer(self._cupy.cuda.Memory(size_bytes), 0)
        self._driver_allocs += 1
        self._peak_reserved = max(self._peak_reserved, self._pool.total_bytes() + size_bytes)
        return memory


ALLOCATORS = (CupyPool("cupy-pool"),)
