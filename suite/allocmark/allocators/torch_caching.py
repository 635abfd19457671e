"""PyTorch's CUDA allocators: the native caching one, its settings, and its two alternatives.

Blocks are asked for with ``raw_alloc``, the allocator's own entry below the operator dispatch.
A block that another stream will use needs a tensor, since only a tensor can be recorded.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from allocmark.allocators.base import (
    Allocator,
    Capability,
    NativeCalls,
    PoolKind,
    PythonCalls,
    Stats,
    Tier,
    import_framework,
)
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError
from allocmark.system.message import Message

CONF = "PYTORCH_CUDA_ALLOC_CONF"
NATIVE, NO_CACHE = "torch-native", "torch-nocache"
EXPANDABLE, DRIVER_POOL = "torch-expandable", "torch-async"


def import_torch() -> ModuleType:
    """Import torch. Raises `NotMeasurableError` where it is missing or built without CUDA."""
    torch = import_framework("torch")
    if torch.version.cuda is None:
        raise NotMeasurableError(
            f"torch {torch.__version__} is a CPU-only build: install one with CUDA"
        )
    return torch


def _why_none(torch: Any) -> str:
    """Return the first sentence of what torch says of a GPU that it cannot use."""
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        first = str(error).partition("\n")[0].partition(". ")[0]
        if first:
            return first
    except torch.cuda.DeferredCudaCallError:
        pass  # A later question that fails because of the first one: it says nothing of the cause.
    return "torch.cuda.is_available() is no"


_CACHING = frozenset(
    {
        Capability.CACHE,
        Capability.TRIM,
        Capability.STREAMS,
        Capability.RECORD_STREAM,
        Capability.OP,
        Capability.RESTART,
    }
)


_IDS = itertools.count(1 << 40)
"""Above the ids that torch gives to the pools of this process's own graphs."""
_BEGINS = ("_cuda_beginAllocateCurrentThreadToPool", "_cuda_beginAllocateToPool")
_ENDS = ("_cuda_endAllocateToPool", "_cuda_endAllocateCurrentStreamToPool")
"""torch's entry points for pools, the newest name first."""


def _entry_of(torch: ModuleType, names: Sequence[str]) -> Callable[..., None]:
    entry: Callable[..., None] = next(
        getattr(torch._C, name) for name in names if hasattr(torch._C, name)
    )
    return entry


class _PrivatePool:
    """A private pool by its id; a `MemPool` is held as such, where torch has them (2.5)."""

    def __init__(self, torch: Any, kind: PoolKind) -> None:
        kept = kind is PoolKind.MEMPOOL and hasattr(torch.cuda, "MemPool")
        self.mempool: Any = torch.cuda.MemPool() if kept else None
        # torch tells a graph's own pool from the others by which half of its id is set.
        number = next(_IDS)
        own = (number, 0) if kind is PoolKind.GRAPH else (0, number)
        self.id: tuple[int, int] = own if self.mempool is None else self.mempool.id


class TorchCaching(Allocator):
    """PyTorch's allocator under one ``PYTORCH_CUDA_ALLOC_CONF`` (empty: as it comes)."""

    framework = "torch"
    tracked = True
    capabilities = _CACHING | {Capability.EXACT, Capability.PRIVATE_POOLS}
    map_meter = "memory_snapshot"
    description = Message("PyTorch under the setting beside")

    def __init__(self, name: str, conf: str = "", **about: Any) -> None:
        # Newer releases renamed the variable and still read the old one; 2.8 and older know
        # only the old one.
        super().__init__(name, {CONF: conf} if conf else {}, **about)

    def prepare(self) -> None:
        import_torch()

    def open(self, device: int) -> None:
        torch = self._torch = import_torch()
        if not torch.cuda.is_available():
            raise NotMeasurableError(f"torch finds no usable GPU ({_why_none(torch)})")
        torch.cuda.set_device(device)
        torch.cuda.init()
        torch.cuda.synchronize()
        self._device = device
        self._raw_alloc = torch._C._cuda_cudaCachingAllocator_raw_alloc
        self._raw_delete = torch._C._cuda_cudaCachingAllocator_raw_delete
        self._streams: list[Any] = [torch.cuda.default_stream(device)]
        self._handles = [0]
        self._tensors: dict[int, Any] = {}
        self._raw: set[int] = set()
        self._pools: dict[int, _PrivatePool] = {}
        self._routed: tuple[int, int] | None = None

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        try:
            block: int = self._raw_alloc(size_bytes, self.stream_handle(stream))
        except self._torch.OutOfMemoryError as error:
            raise DeviceOutOfMemoryError(str(error)) from None
        self._raw.add(block)
        return block

    def alloc_shared(self, size_bytes: int, stream: int = 0) -> int:
        self.stream_handle(stream)
        try:
            with self._torch.cuda.stream(self._streams[stream]):
                tensor = self.op(size_bytes)
        except self._torch.OutOfMemoryError as error:
            raise DeviceOutOfMemoryError(str(error)) from None
        block: int = tensor.data_ptr()
        self._tensors[block] = tensor
        return block

    def free(self, block: int, stream: int = 0) -> None:
        if self._tensors.pop(block, None) is None:
            self._raw.remove(block)
            self._raw_delete(block)

    def record_stream(self, block: int, stream: int) -> None:
        self.stream_handle(stream)
        self._tensors[block].record_stream(self._streams[stream])

    def stream_handle(self, stream: int) -> int:
        while stream >= len(self._streams):
            made = self._torch.cuda.Stream(self._device)
            self._streams.append(made)
            self._handles.append(made.cuda_stream)
        return self._handles[stream]

    def begin_pool(self, pool: int, kind: PoolKind) -> None:
        begin, end = (_entry_of(self._torch, names) for names in (_BEGINS, _ENDS))
        if pool not in self._pools:
            made = self._pools[pool] = _PrivatePool(self._torch, kind)
            if (
                made.mempool is None
            ):  # The first use of an id makes its pool: the owner's reference.
                begin(self._device, made.id)
                end(self._device, made.id)
        self._routed = self._pools[pool].id
        begin(self._device, self._routed)

    def end_pool(self) -> None:
        routed, self._routed = self._routed, None
        if routed is not None:
            _entry_of(self._torch, _ENDS)(self._device, routed)
            self._torch._C._cuda_releasePool(self._device, routed)

    def release_pool(self, pool: int) -> None:
        gone = self._pools.pop(pool)
        if gone.mempool is None:
            self._torch._C._cuda_releasePool(self._device, gone.id)
        gone.mempool = None  # As its last reference goes, it releases its pool itself.

    def release_pools(self) -> None:
        self.end_pool()
        for pool in list(self._pools):
            self.release_pool(pool)

    def private_pools(self) -> Mapping[tuple[int, int], int]:
        return {pool.id: number for number, pool in self._pools.items()}

    def synchronize(self) -> None:
        self._torch.cuda.synchronize(self._device)

    def stats(self) -> Stats:
        # As memory_stats, which spends ten times as long on flattening the names.
        counters = self._torch.cuda.memory_stats_as_nested_dict(self._device)

        def read(name: str, figure: str) -> int | None:
            value: int | None = counters.get(name, {}).get("all", {}).get(figure)
            return value

        return Stats(
            allocated_bytes=read("allocated_bytes", "current"),
            reserved_bytes=read("reserved_bytes", "current"),
            peak_allocated_bytes=read("allocated_bytes", "peak"),
            peak_reserved_bytes=read("reserved_bytes", "peak"),
            inactive_split_bytes=read("inactive_split_bytes", "current"),
            segments=read("segment", "current"),
            driver_allocs=counters.get("num_device_alloc"),
            driver_frees=counters.get("num_device_free"),
            retries=counters.get("num_alloc_retries"),
            ooms=counters.get("num_ooms"),
        )

    def reset_peaks(self) -> None:
        self._torch.cuda.reset_peak_memory_stats(self._device)

    def trim(self) -> None:
        self._torch.cuda.empty_cache()

    def restart(self) -> None:
        self._tensors.clear()
        for block in list(self._raw):
            self.free(block)
        self.synchronize()
        self.trim()
        self.reset_peaks()
        self._torch.cuda.reset_accumulated_memory_stats(self._device)

    def segment_map(self) -> list[tuple[int, int]] | None:
        return [
            (s["total_size"], sum(b["size"] for b in s["blocks"] if b["state"] != "inactive"))
            for s in self._torch.cuda.memory_snapshot()
        ]

    def largest_free_bytes(self) -> int | None:
        blocks = [b for s in self._torch.cuda.memory_snapshot() for b in s["blocks"]]
        return max((b["size"] for b in blocks if b["state"] == "inactive"), default=0)

    def native(self) -> NativeCalls | None:
        try:
            library = ctypes.CDLL(f"{self._torch.__path__[0]}/lib/libtorch_cuda.so")
            alloc = library.aoti_torch_cuda_caching_allocator_raw_alloc
            free = library.aoti_torch_cuda_caching_allocator_raw_delete
        except (OSError, AttributeError):  # Before torch 2.10 there is no C entry point.
            return None
        addresses = (ctypes.cast(call, ctypes.c_void_p).value or 0 for call in (alloc, free))
        return NativeCalls("aoti", *addresses)

    def python_calls(self) -> PythonCalls:
        return PythonCalls(self._raw_alloc, self._raw_delete, extra=(0,))  # The default stream.

    def op(self, size_bytes: int) -> Any:
        return self._torch.empty(size_bytes, dtype=self._torch.uint8, device="cuda")


class TorchSetting(TorchCaching):
    """A base allocator under a setting that people use."""

    tier = Tier.SETTING


class TorchCollecting(TorchSetting):
    """A setting that acts on the memory fraction of the process.

    torch collects garbage only where a fraction is set, before it asks the driver, and never
    expandable segments.
    """

    needs_limit = True

    def limit(self, capacity_bytes: int) -> None:
        total = self._torch.cuda.mem_get_info(self._device)[1]
        # Half a byte more, so that rounding does not take one away.
        fraction = min(1.0, (capacity_bytes + 0.5) / total)
        self._torch.cuda.set_per_process_memory_fraction(fraction, self._device)


class TorchDriverPool(TorchCaching):
    """``backend:cudaMallocAsync``: torch's front over the driver's stream-ordered pool."""

    driver_pool = True
    # What the pool holds depends on when the GPU finishes, and it has no block map.
    capabilities = _CACHING

    def stats(self) -> Stats:
        """Return the counters this backend keeps; it leaves the others at zero."""
        kept = super().stats()
        return Stats(
            allocated_bytes=kept.allocated_bytes,
            reserved_bytes=kept.reserved_bytes,
            peak_allocated_bytes=kept.peak_allocated_bytes,
            peak_reserved_bytes=kept.peak_reserved_bytes,
        )

    def largest_free_bytes(self) -> int | None:
        return None


class TorchNoCache(TorchCaching):
    """``PYTORCH_NO_CUDA_MEMORY_CACHING``: each tensor is one cudaMalloc.

    Only the tensor path honours the variable (``raw_alloc`` caches all the same), and such
    tensors are missing from torch's counters.
    """

    capabilities = frozenset({Capability.OP, Capability.RESTART, Capability.EXACT})
    same_driver_calls = "cuda-malloc"

    def __init__(self, name: str, **about: Any) -> None:
        Allocator.__init__(self, name, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, **about)

    def open(self, device: int) -> None:
        super().open(device)
        self._calls = [0, 0]

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        try:
            block = self.alloc_shared(size_bytes, stream)
        except RuntimeError as error:
            # Without the cache, cudaMalloc's own error arrives here, not torch's OutOfMemoryError.
            if "out of memory" not in str(error):
                raise
            raise DeviceOutOfMemoryError(str(error)) from None
        self._calls[0] += 1
        return block

    def free(self, block: int, stream: int = 0) -> None:
        super().free(block, stream)
        self._calls[1] += 1

    def record_stream(self, block: int, stream: int) -> None:
        raise self.lacks(Capability.RECORD_STREAM)

    def trim(self) -> None:
        raise self.lacks(Capability.TRIM)

    def stats(self) -> Stats:
        return Stats(
            segments=len(self._tensors), driver_allocs=self._calls[0], driver_frees=self._calls[1]
        )

    def restart(self) -> None:
        self._tensors.clear()
        self.synchronize()
        self._calls = [0, 0]

    def native(self) -> NativeCalls | None:
        return None

    def python_calls(self) -> PythonCalls:
        return PythonCalls(self.op)

    def largest_free_bytes(self) -> int | None:
        return None


ALLOCATORS = (
    TorchCaching(NATIVE, order=10, description=Message("PyTorch as it comes")),
    TorchNoCache(NO_CACHE, order=11),
    TorchCaching(EXPANDABLE, "expandable_segments:True", order=12),
    TorchDriverPool(DRIVER_POOL, "backend:cudaMallocAsync", order=13),
    TorchSetting("torch-split64", "max_split_size_mb:64"),
    TorchSetting("torch-split256", "max_split_size_mb:256"),
    TorchSetting("torch-roundup4", "roundup_power2_divisions:4"),
    TorchCollecting("torch-gc80", "garbage_collection_threshold:0.8"),
    TorchSetting("torch-expandable-split64", "expandable_segments:True,max_split_size_mb:64"),
    TorchSetting(
        "torch-expandable-roundup4", "expandable_segments:True,roundup_power2_divisions:4"
    ),
    TorchCollecting(
        "torch-expandable-gc80", "expandable_segments:True,garbage_collection_threshold:0.8"
    ),
)
