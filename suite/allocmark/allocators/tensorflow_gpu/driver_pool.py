"""TensorFlow's front over the driver's stream-ordered pool."""

from __future__ import annotations

from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from dataclasses import replace

from allocmark.allocators.base import Stats
from allocmark.allocators.tensorflow_gpu.allocator import TensorFlowAllocator
from allocmark.cuda import runtime

_RESERVED, _RESERVED_HIGH = 5, 6
"""cudaMemPoolAttrReservedMemCurrent and -High."""


class TensorFlowDriverPool(TensorFlowAllocator):
    """``TF_GPU_ALLOCATOR=cuda_malloc_async``: TensorFlow's front over the driver's default pool."""

    driver_pool = True

    def open(self, device: int) -> None:
        super().open(device)
        self._pool = c_void_p()
        runtime.call("cudaDeviceGetDefaultMemPool", byref(self._pool), c_int(device))

    def stats(self) -> Stats:
        """Return TensorFlow's counters of bytes in use, and the driver's of its pool."""
        reserved, peak = self._attribute(_RESERVED), self._attribute(_RESERVED_HIGH)
        return replace(super().stats(), reserved_bytes=reserved, peak_reserved_bytes=peak)

    def reset_peaks(self) -> None:
        super().reset_peaks()
        zero = c_uint64(0)
        runtime.call("cudaMemPoolSetAttribute", self._pool, c_int(_RESERVED_HIGH), byref(zero))

    def restart(self) -> None:
        """Empty the driver's pool, which TensorFlow itself never does."""
        self._free_all()
        runtime.call("cudaMemPoolTrimTo", self._pool, c_size_t(0))
        self.reset_peaks()

    def _attribute(self, attribute: int) -> int:
        value = c_uint64()
        runtime.call("cudaMemPoolGetAttribute", self._pool, c_int(attribute), byref(value))
        return value.value
