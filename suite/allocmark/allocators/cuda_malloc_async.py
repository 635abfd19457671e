"""The driver's own pool, cudaMallocAsync, at both ends of its release threshold.

With threshold 0 (the default of CUDA) the pool gives all free memory back at each
synchronization; with the largest threshold it keeps everything until it is trimmed.
"""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from typing import Any

from allocmark.allocators.base import Allocator, Capability, NativeCalls, Stats
from allocmark.cuda import runtime
from allocmark.system.message import Message

_RELEASE_THRESHOLD, _RESERVED, _RESERVED_HIGH, _USED, _USED_HIGH = 4, 5, 6, 7, 8
THRESHOLD_MAX = 2**64 - 1


class CudaMallocAsync(Allocator):
    """The device's default pool with one release threshold, in bytes."""

    framework = "cuda"
    tracked = True
    driver_pool = True
    capabilities = frozenset(
        {Capability.CACHE, Capability.TRIM, Capability.STREAMS, Capability.RESTART}
    )

    def __init__(self, name: str, threshold_bytes: int, threshold: str, **about: Any) -> None:
        by = f"cudaMemPoolAttrReleaseThreshold={threshold}"
        super().__init__(name, configured_by=by, **about)
        self._threshold = threshold_bytes

    def open(self, device: int) -> None:
        runtime.set_device(device)
        self._pool = c_void_p()
        runtime.call("cudaDeviceGetDefaultMemPool", byref(self._pool), c_int(device))
        self._set(_RELEASE_THRESHOLD, self._threshold)
        self._streams = [0]
        self._live: dict[int, int] = {}

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        block = runtime.malloc_async(size_bytes, self.stream_handle(stream))
        self._live[block] = stream
        return block

    def free(self, block: int, stream: int = 0) -> None:
        runtime.free_async(block, self.stream_handle(stream))
        del self._live[block]

    def stream_handle(self, stream: int) -> int:
        while stream >= len(self._streams):
            self._streams.append(runtime.create_stream())
        return self._streams[stream]

    def stats(self) -> Stats:
        return Stats(
            allocated_bytes=self._get(_USED),
            reserved_bytes=self._get(_RESERVED),
            peak_allocated_bytes=self._get(_USED_HIGH),
            peak_reserved_bytes=self._get(_RESERVED_HIGH),
        )

    def reset_peaks(self) -> None:
        self._set(_RESERVED_HIGH, 0)
        self._set(_USED_HIGH, 0)

    def trim(self) -> None:
        runtime.call("cudaMemPoolTrimTo", self._pool, c_size_t(0))

    def restart(self) -> None:
        for block, stream in list(self._live.items()):
            self.free(block, stream)
        runtime.synchronize()
        self.trim()
        self.reset_peaks()

    def native(self) -> NativeCalls:
        return NativeCalls(
            "runtime-async", runtime.address("cudaMallocAsync"), runtime.address("cudaFreeAsync")
        )

    def _get(self, attribute: int) -> int:
        value = c_uint64()
        runtime.call("cudaMemPoolGetAttribute", self._pool, c_int(attribute), byref(value))
        return value.value

    def _set(self, attribute: int, value: int) -> None:
        number = c_uint64(value)
        runtime.call("cudaMemPoolSetAttribute", self._pool, c_int(attribute), byref(number))


ALLOCATORS = (
    CudaMallocAsync(
        "cuda-malloc-async-0",
        threshold_bytes=0,
        threshold="0",
        order=1,
        description=Message(
            "the driver's pool (cudaMallocAsync), "
            "which returns what is free at each synchronization"
        ),
    ),
    CudaMallocAsync(
        "cuda-malloc-async-max",
        threshold_bytes=THRESHOLD_MAX,
        threshold="2^64-1",
        order=2,
        description=Message("the driver's pool (cudaMallocAsync), which returns nothing by itself"),
    ),
)
