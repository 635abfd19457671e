"""What fragmentation costs: bytes held for each workload, and the capacity it needs."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell
from allocmark.workloads import catalog

from .common import (
    ALLOCATORS,
    BASE_ALLOCATORS,
    CACHE_TIMEOUT_S,
    TENSORFLOW_ALLOCATORS,
    measured,
)


class Fragmentation:
    """Peak bytes held from the driver, and the driver's calls.

    The wasted share has no line of its own: what a workload asks for never changes.
    """

    params = [ALLOCATORS, list(catalog.names())]
    param_names = ["allocator", "workload"]
    version = "1"

    def setup_cache(self) -> str:
        return measured("fragmentation", ["peak_reserved_bytes", "driver_allocs"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]

    def track_peak_reserved(self, cells: str, allocator: str, workload: str) -> Cell:
        return read_cell(cells, allocator, "peak_reserved_bytes", workload=workload)

    track_peak_reserved.unit = "bytes"  # type: ignore[attr-defined]

    def track_driver_allocs(self, cells: str, allocator: str, workload: str) -> Cell:
        return read_cell(cells, allocator, "driver_allocs", workload=workload)

    track_driver_allocs.unit = "calls"  # type: ignore[attr-defined]


class Capacity:
    """The smallest capacity in which a workload completes, for the base allocators."""

    params = [[*BASE_ALLOCATORS, *TENSORFLOW_ALLOCATORS], list(catalog.names())]
    param_names = ["allocator", "workload"]
    unit = "bytes"
    version = "1"

    def setup_cache(self) -> str:
        return measured("capacity", ["smallest_capacity_bytes"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]

    def track_smallest(self, cells: str, allocator: str, workload: str) -> Cell:
        return read_cell(cells, allocator, "smallest_capacity_bytes", workload=workload)
