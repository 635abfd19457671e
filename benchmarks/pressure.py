"""Memory pressure: what counters show as memory is freed, and retries on the way to an OOM."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell
from allocmark.workloads import catalog

from .common import CACHE_TIMEOUT_S, measured

ALLOCATORS = [
    "cuda-malloc-async-0",
    "cuda-malloc-async-max",
    "torch-native",
    "torch-expandable",
    "torch-async",
]
POINTS = [
    "before",
    "1 GiB taken",
    "half freed",
    "half freed, cache emptied",
    "all freed",
    "all freed, cache emptied",
]
COUNTERS = ["allocated", "reserved", "cudaMemGetInfo used", "NVML process"]
TOWARDS_OOM = ["torch-native", "torch-expandable", "torch-split64"]
RATIOS = [1.0, 1.2]


class _Pressure:
    version = "1"

    def setup_cache(self) -> str:
        return measured("pressure", ["shown_bytes", "retries"])

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]


class Counters(_Pressure):
    """What a counter shows at a point of the program: take, free, give the cache back."""

    params = [ALLOCATORS, POINTS, COUNTERS]
    param_names = ["allocator", "point", "counter"]
    unit = "bytes"

    def track_shown(self, cells: str, allocator: str, point: str, counter: str) -> Cell:
        return read_cell(cells, allocator, "shown_bytes", point=point, counter=counter)


class TowardsOom(_Pressure):
    """How often the allocator gives its cache back and tries again in a given capacity."""

    params = [TOWARDS_OOM, list(catalog.names()), RATIOS]
    param_names = ["allocator", "workload", "capacity_ratio"]
    unit = "retries"

    def track_retries(self, cells: str, allocator: str, workload: str, ratio: float) -> Cell:
        return read_cell(cells, allocator, "retries", workload=workload, capacity_ratio=ratio)
