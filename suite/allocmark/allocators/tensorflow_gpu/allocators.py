"""TensorFlow's GPU allocators: BFC in three modes, and its front over cudaMallocAsync.

After `open` the allocator is the live one, which TensorFlow's tensors come from. `restart` puts a
fresh one of the same class in its place, made over the same driver with the same options as
TensorFlow makes the live one, so that a workload starts clean without starting a process. Raw
allocations go below the operations, and are told not to wait where they fail.

Where the native shim cannot be had, allocations are ``tf.raw_ops.Empty`` operations and counters
those of ``get_memory_info``; `meter` says which it was, `setting` why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from allocmark.allocators.base import Allocator, Capability, NativeCalls, Stats, Tier
from allocmark.allocators.tensorflow_gpu import causes, framework, shim
from allocmark.allocators.tensorflow_gpu.framework import BY_ENVIRONMENT, QUIET, Mode
from allocmark.cuda import runtime
from allocmark.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.units import MIB, format_bytes

_TABLE_BYTES = 1 << 30
"""Shapes are of 32-bit numbers: from here on a tensor has rows."""
_ROW_BYTES = 4096
_PAGE_BYTES = 2 * MIB
"""What the driver hands out: a region is rounded up to whole pages."""
_PUBLIC, _NATIVE = "get_memory_info", "AllocatorStats, by the native shim"
_RESERVED, _RESERVED_HIGH = 5, 6
"""cudaMemPoolAttrReservedMemCurrent and -High."""


class TensorFlowAllocator(Allocator):
    """TensorFlow in one mode; `limit_bytes` is the memory_limit, whole MiB.

    `by_environment` sets growth by its variable instead of by the API; with `retry` an operation
    that runs out of memory waits as it does for a user.
    """

    framework = "tensorflow"
    capabilities = frozenset({Capability.CACHE, Capability.OP, Capability.RESTART})
    slow_op = True

    def __init__(
        self,
        name: str,
        mode: Mode,
        limit_bytes: int | None = None,
        *,
        tier: Tier = Tier.BASE,
        by_environment: bool = False,
        retry: bool = False,
    ) -> None:
        variables: Mapping[str, str] = {}
        if by_environment or mode is Mode.ASYNC:
            variables = BY_ENVIRONMENT[mode]
        super().__init__(name, {**QUIET, **variables})
        self.mode, self.limit_bytes, self.tier = mode, limit_bytes, tier
        self._by_environment, self._retry = by_environment, retry
        self.meter = _PUBLIC
        self._shim: shim.Shim | None = None
        self._why_no_shim = ""

    def prepare(self) -> None:
        framework.import_tensorflow()
        self._locate()

    def open(self, device: int) -> None:
        """Make TensorFlow's device number 0 on that GPU, in this mode.

        Nothing is allocated yet, and greedy has taken nothing: it does with the first tensor.
        Raises `NotMeasurableError` for a GPU that cannot be used, a shim for another version, a
        limit above the card, a host too small for greedy, and a mode that comes too late.
        """
        tensorflow = self._tf = framework.import_tensorflow()
        path = self._locate()
        gpu = framework.configure(tensorflow, device, retry=self._retry)
        if not self._by_environment:
            framework.set_mode(tensorflow, gpu, self.mode, self.limit_bytes)
        if path is not None:
            self._shim = shim.Shim(path)
            self._shim.watch()
        framework.make_device(tensorflow)
        runtime.set_device(device)
        # The device holds no memory before its first tensor: it is not too late to refuse.
        free_bytes, total_bytes = runtime.memory_info()
        if self.limit_bytes is not None:
            causes.check_limit(self.limit_bytes, free_bytes, total_bytes)
        if self.mode in (Mode.GREEDY, Mode.LIMIT):
            causes.check_host_memory(self.limit_bytes or free_bytes)
        self._device = device
        self._empty: Callable[..., Any] = tensorflow.raw_ops.Empty
        self._uint8 = tensorflow.uint8
        self._shapes: dict[int, Any] = {}
        self._live: dict[int, Any] = {}
        self._tensors = 0
        if self._shim is not None:
            self.meter = _NATIVE
            self._open_shim(self._shim)

    def setting(self) -> str:
        """Return how the mode was set, and how the allocator is read."""
        how = {
            Mode.GREEDY: "as it comes",
            Mode.GROWTH: "set_memory_growth(True)",
            Mode.LIMIT: f"memory_limit={(self.limit_bytes or 0) // MIB}",
            Mode.ASYNC: "TF_GPU_ALLOCATOR=cuda_malloc_async",
        }[self.mode]
        if self._by_environment:
            how = ",".join(f"{name}={value}" for name, value in BY_ENVIRONMENT[self.mode].items())
        read = f"read by {_PUBLIC} ({self._why_no_shim})" if self._why_no_shim else self.meter
        return f"{how}; {read}"

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        if self._shim is None:
            self._tensors += 1
            self._live[self._tensors] = self.op(size_bytes)
            return self._tensors
        block = self._shim.alloc(size_bytes)
        self._live[block] = None
        return block

    def free(self, block: int, stream: int = 0) -> None:
        del self._live[block]
        if self._shim is not None:
            self._shim.free(block)

    def op(self, size_bytes: int) -> Any:
        """Run ``tf.raw_ops.Empty``, its shape being a tensor made once for each size.

        A list as shape would become one in each call, for three times what the operation takes.
        """
        shape = self._shapes.get(size_bytes)
        if shape is None:
            shape = self._shapes[size_bytes] = self._shape(size_bytes)
        try:
            return self._empty(shape=shape, dtype=self._uint8, init=False)
        except self._tf.errors.ResourceExhaustedError as error:
            raise DeviceOutOfMemoryError(error.message) from None

    def synchronize(self) -> None:
        runtime.synchronize()

    def reset_peaks(self) -> None:
        if self._shim is None:
            self._tf.config.experimental.reset_memory_stats("GPU:0")
        else:
            self._shim.clear()

    def stats(self) -> Stats:
        """Return the allocator's counters; what TensorFlow's public ones leave out is None."""
        if self._shim is None:
            told = self._tf.config.experimental.get_memory_info("GPU:0")
            return Stats(allocated_bytes=told["current"], peak_allocated_bytes=told["peak"])
        return self._stats(self._shim.stats())

    def native(self) -> NativeCalls | None:
        if self._shim is None:
            return None
        return NativeCalls(
            "runtime", *(self._shim.address(name) for name in ("alloc", "free", "wait"))
        )

    @property
    def live_shim(self) -> shim.Shim:
        """The shim of an opened allocator. Raises `NotMeasurableError` where there is none."""
        if self._shim is None:
            raise NotMeasurableError(
                f"{self.name} can be read only through its native shim ({self._why_no_shim})"
            )
        return self._shim

    def _shape(self, size_bytes: int) -> Any:
        """Return a shape on the host, where the operation wants it."""
        dimensions = [size_bytes]
        if size_bytes >= _TABLE_BYTES:
            dimensions = [-(-size_bytes // _ROW_BYTES), _ROW_BYTES]
        with self._tf.device("/CPU:0"):
            return self._tf.constant(dimensions, self._tf.int32)

    def _locate(self) -> Path | None:
        """Return the shim's path, None where the public counters must do."""
        try:
            return shim.locate()
        except shim.NoShimError as error:
            self._why_no_shim = str(error)
            return None

    def _open_shim(self, opened: shim.Shim) -> None:
        live = opened.live(0, self._device)
        if not live:
            raise NotMeasurableError("tensorflow has made a device without an allocator")
        opened.use(live)

    def _stats(self, told: Mapping[str, int | None]) -> Stats:
        return Stats(
            allocated_bytes=told["bytes_in_use"],
            reserved_bytes=told["pool_bytes"],
            peak_allocated_bytes=told["peak_bytes_in_use"],
            peak_reserved_bytes=told["peak_pool_bytes"],
        )

    def _free_all(self) -> None:
        for block in list(self._live):
            self.free(block)
        self.synchronize()


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

    def _stats(self, told: Mapping[str, int | None]) -> Stats:
        """Return BFC's counters, and what was seen at its border to the driver.

        A retry is what torch calls one: free regions are given back, and the driver asked again.
        """
        return Stats(
            allocated_bytes=told["bytes_in_use"],
            reserved_bytes=told["pool_bytes"],
            peak_allocated_bytes=told["peak_bytes_in_use"],
            peak_reserved_bytes=told["peak_pool_bytes"],
            segments=told["regions"],
            driver_allocs=told["asks"],
            driver_frees=told["returns"],
            retries=told["collections"],
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
        free_bytes = runtime.memory_info()[0]
        if free_bytes >= self._total_bytes:
            return
        if self.mode is Mode.GREEDY:
            raise NotMeasurableError(
                f"{self.name} takes what is free when its process starts, and "
                f"{format_bytes(self._total_bytes - free_bytes)} of that are gone: "
                "it needs a process of its own for each size of the card"
            )
        self._replace(free_bytes // _PAGE_BYTES * _PAGE_BYTES)

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


class TensorFlowDriverPool(TensorFlowAllocator):
    """``TF_GPU_ALLOCATOR=cuda_malloc_async``: TensorFlow's front over the driver's default pool."""

    def open(self, device: int) -> None:
        super().open(device)
        self._pool = c_void_p()
        runtime.call("cudaDeviceGetDefaultMemPool", byref(self._pool), c_int(device))

    def stats(self) -> Stats:
        """Return TensorFlow's counters of bytes in use, and the driver's of its pool."""
        told = super().stats()
        return Stats(
            allocated_bytes=told.allocated_bytes,
            reserved_bytes=self._attribute(_RESERVED),
            peak_allocated_bytes=told.peak_allocated_bytes,
            peak_reserved_bytes=self._attribute(_RESERVED_HIGH),
        )

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
