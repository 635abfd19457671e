"""What TensorFlow's GPU allocators have in common: a mode, the shim, operations.

After `open` the allocator is the live one, which TensorFlow's tensors come from. `restart` puts a
fresh one of the same class in its place, made over the same driver with the same options as
TensorFlow makes the live one, so that a workload starts clean without starting a process. Raw
allocations go below the operations, and are told not to wait where they fail.

Where the native shim cannot be had, allocations are ``tf.raw_ops.Empty`` operations and counters
those of ``get_memory_info``; `meter` says which it was, `setting` why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from allocmark.allocators.base import (
    NOTHING_SET,
    Allocator,
    Capability,
    NativeCalls,
    PythonCalls,
    Stats,
    Tier,
    import_framework,
)
from allocmark.allocators.tensorflow_gpu import causes, framework, shim
from allocmark.allocators.tensorflow_gpu.framework import BY_ENVIRONMENT, QUIET, Mode
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.units import MIB

_TABLE_BYTES = 1 << 30
"""Shapes are of 32-bit numbers: from here on a tensor has rows."""
_ROW_BYTES = 4096
_PUBLIC, _NATIVE = "get_memory_info", "AllocatorStats, by the native shim"


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
        **about: Any,
    ) -> None:
        variables: Mapping[str, str] = {}
        if by_environment or mode is Mode.ASYNC:
            variables = BY_ENVIRONMENT[mode]
        calls = {
            Mode.GROWTH: "set_memory_growth(gpu, True)",
            Mode.LIMIT: f"memory_limit={(limit_bytes or 0) // MIB}",
        }
        by = " ".join(f"{key}={value}" for key, value in variables.items()) or calls.get(mode)
        super().__init__(name, {**QUIET, **variables}, configured_by=by or NOTHING_SET, **about)
        self.mode, self.limit_bytes, self.tier = mode, limit_bytes, tier
        self.slow_restart = mode is Mode.GREEDY
        self.fixed_region = mode in (Mode.GREEDY, Mode.LIMIT)
        # What a region takes at first is in `tensorflow_policy`; from there on it is as growth.
        self.tracked = not self.fixed_region
        self._by_environment, self._retry = by_environment, retry
        self.meter = _PUBLIC
        self._shim: shim.Shim | None = None
        self._why_no_shim = ""

    def prepare(self) -> None:
        import_framework("tensorflow")
        self._locate()

    def open(self, device: int) -> None:
        """Make TensorFlow's device number 0 on that GPU, in this mode.

        Nothing is allocated yet, and greedy has taken nothing: it does with the first tensor.
        Raises `NotMeasurableError` for a GPU that cannot be used, a shim for another version, a
        limit above the card, a host too small for greedy, and a mode that comes too late.
        """
        tensorflow = self._tf = import_framework("tensorflow")
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
        if self.fixed_region:
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

    def reset_peaks(self) -> None:
        if self._shim is None:
            self._tf.config.experimental.reset_memory_stats("GPU:0")
        else:
            self._shim.clear()

    def stats(self) -> Stats:
        """Return the allocator's counters; what TensorFlow's public ones leave out is None."""
        if self._shim is None:
            info = self._tf.config.experimental.get_memory_info("GPU:0")
            return Stats(allocated_bytes=info["current"], peak_allocated_bytes=info["peak"])
        return self._stats(self._shim.stats())

    def native(self) -> NativeCalls | None:
        if self._shim is None:
            return None
        return NativeCalls(
            shape="runtime",
            alloc=self._shim.address("alloc"),
            free=self._shim.address("free"),
            synchronize=self._shim.address("wait"),
            bare=self._shim.address("bare"),
        )

    def python_calls(self) -> PythonCalls:
        return PythonCalls(self.op)

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

    def _stats(self, counters: Mapping[str, int | None]) -> Stats:
        return Stats(
            allocated_bytes=counters["bytes_in_use"],
            reserved_bytes=counters["pool_bytes"],
            peak_allocated_bytes=counters["peak_bytes_in_use"],
            peak_reserved_bytes=counters["peak_pool_bytes"],
        )

    def _free_all(self) -> None:
        for block in list(self._live):
            self.free(block)
        self.synchronize()
