"""What an allocation costs: hit, miss and return to the driver, by size and allocator."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell

from .common import BASE_ALLOCATORS, CACHE_TIMEOUT_S, TENSORFLOW_ALLOCATORS, measured

SIZES = [1 << exponent for exponent in range(9, 38, 2)]


class _Latency:
    params = [[*BASE_ALLOCATORS, *TENSORFLOW_ALLOCATORS], SIZES]
    param_names = ["allocator", "bytes"]
    type = "time"
    unit = "seconds"
    version = "2"  # 2: shorter batches on quiet cores, at fixed addresses

    def setup_cache(self) -> str:
        return measured("latency", ["call_ns"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]


def _call(cells: str, allocator: str, path: str, call: str, level: str, size: int) -> Cell:
    return read_cell(
        cells, allocator, "call_ns", path=path, call=call, level=level, wait="host", bytes=size
    )


class AllocatorLatency(_Latency):
    """The allocator's own entry point."""

    def track_hit_pair(self, cells: str, allocator: str, size: int) -> Cell:
        return _call(cells, allocator, "hit", "pair", "allocator", size)

    def track_miss_alloc(self, cells: str, allocator: str, size: int) -> Cell:
        return _call(cells, allocator, "miss", "alloc", "allocator", size)

    def track_give_back(self, cells: str, allocator: str, size: int) -> Cell:
        return _call(cells, allocator, "give-back", "free", "allocator", size)


class OperationLatency(_Latency):
    """The framework's operation: what a line of Python costs."""

    params = [["torch-native", "torch-expandable", "torch-async", "tf-growth"], SIZES]

    def track_hit_pair(self, cells: str, allocator: str, size: int) -> Cell:
        return _call(cells, allocator, "hit", "pair", "op", size)
