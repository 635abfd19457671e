"""What fragmentation costs: bytes held for each workload, and the capacity it needs."""

from __future__ import annotations

from allocmark.allocators import names
from allocmark.allocators.base import Tier
from allocmark.asv.cells import Cell, Question
from allocmark.schema.metrics import capacity, fragmentation
from allocmark.workloads import catalog


class Fragmentation(Question):
    """Peak bytes held from the driver, and the driver's calls.

    The wasted share has no line of its own: what a workload requests never changes.
    """

    experiment = fragmentation.EXPERIMENT
    params = [names(tracked=True), catalog.tracked_names()]
    param_names = ["allocator", "workload"]

    def track_peak_reserved(self, allocator: str, workload: str) -> Cell:
        return self.cell(allocator, fragmentation.PEAK_RESERVED_BYTES, workload=workload)

    track_peak_reserved.unit = "bytes"  # type: ignore[attr-defined]

    def track_driver_allocs(self, allocator: str, workload: str) -> Cell:
        return self.cell(allocator, fragmentation.DRIVER_ALLOCS, workload=workload)

    track_driver_allocs.unit = "calls"  # type: ignore[attr-defined]


class Capacity(Question):
    """The smallest capacity in which a workload completes, for the base allocators."""

    experiment = capacity.EXPERIMENT
    params = [names(tier=Tier.BASE, tracked=True), catalog.tracked_names()]
    param_names = ["allocator", "workload"]
    unit = "bytes"

    def track_smallest(self, allocator: str, workload: str) -> Cell:
        return self.cell(allocator, capacity.SMALLEST_CAPACITY_BYTES, workload=workload)
