"""What an allocation costs: hit, miss and return to the driver, by size and allocator."""

from __future__ import annotations

from allocmark.allocators import names
from allocmark.allocators.base import Tier
from allocmark.asv.cells import Cell, Question
from allocmark.schema.metrics import latency as metrics

SIZES = [1 << exponent for exponent in range(9, 38, 2)]


class _Latency(Question):
    experiment = metrics.EXPERIMENT
    params = [names(tier=Tier.BASE, tracked=True), SIZES]
    param_names = ["allocator", "bytes"]
    type = "time"
    unit = "seconds"
    version = "2"  # 2: shorter batches on quiet cores, at fixed addresses

    def call(self, allocator: str, path: str, call: str, level: str, size: int) -> Cell:
        axes = {"path": path, "call": call, "level": level, "wait": metrics.HOST}
        return self.cell(allocator, metrics.CALL_NS, **axes, bytes=size)


class AllocatorLatency(_Latency):
    """The allocator's own entry point."""

    def track_hit_pair(self, allocator: str, size: int) -> Cell:
        return self.call(allocator, metrics.HIT, metrics.PAIR, metrics.ALLOCATOR, size)

    def track_miss_alloc(self, allocator: str, size: int) -> Cell:
        return self.call(allocator, metrics.MISS, metrics.ALLOC, metrics.ALLOCATOR, size)

    def track_give_back(self, allocator: str, size: int) -> Cell:
        return self.call(allocator, metrics.GIVE_BACK, metrics.FREE, metrics.ALLOCATOR, size)


class OperationLatency(_Latency):
    """The framework's operation: what a line of Python costs."""

    params = [["torch-native", "torch-expandable", "torch-async", "tf-growth"], SIZES]

    def track_hit_pair(self, allocator: str, size: int) -> Cell:
        return self.call(allocator, metrics.HIT, metrics.PAIR, metrics.OP, size)
