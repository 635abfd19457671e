"""Memory pressure: what counters show as memory is freed, and retries on the way to an OOM."""

from __future__ import annotations

from allocmark.allocators import names
from allocmark.allocators.base import Capability, Tier
from allocmark.asv.cells import Cell, Question
from allocmark.schema.metrics import pressure as metrics
from allocmark.workloads import catalog

COUNTERS = [metrics.ALLOCATED, metrics.RESERVED, metrics.MEM_GET_INFO_USED, metrics.NVML_PROCESS]
TOWARDS_OOM = ["torch-native", "torch-expandable", "torch-split64"]
RATIOS = [1.0, 1.2]


class Counters(Question):
    """What a counter shows at a point of the program: take, free, release the cache."""

    experiment = metrics.EXPERIMENT
    params = [
        names(tier=Tier.BASE, tracked=True, having=Capability.STREAMS),
        list(metrics.POINTS),
        COUNTERS,
    ]
    param_names = ["allocator", "point", "counter"]
    unit = "bytes"

    def track_shown(self, allocator: str, point: str, counter: str) -> Cell:
        return self.cell(allocator, metrics.SHOWN_BYTES, point=point, counter=counter)


class TowardsOom(Question):
    """How often the allocator releases its cache and tries again in a given capacity."""

    experiment = metrics.EXPERIMENT
    params = [TOWARDS_OOM, catalog.tracked_names(), RATIOS]
    param_names = ["allocator", "workload", "capacity_ratio"]
    unit = "retries"

    def track_retries(self, allocator: str, workload: str, ratio: float) -> Cell:
        return self.cell(allocator, metrics.RETRIES, workload=workload, capacity_ratio=ratio)
