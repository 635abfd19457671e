"""The driver's own pool in replays without a GPU: a model of it, so an interval, no figure."""

from __future__ import annotations

from typing import NamedTuple

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import CONF

FITTED = frozenset({"captured_graphs", "detection", "graph_network", "serving"})
"""The programs that the model was fitted to: every second one by name of the eight that there were.

All others, those that were written since among them, are held out.
"""


class Margin(NamedTuple):
    """How far a figure may be off, in percent of it: the truth may be so much less, or more."""

    less_percent: int
    more_percent: int

    def __str__(self) -> str:
        return f"-{self.less_percent}/+{self.more_percent} %"

    def interval(self, value_bytes: int) -> tuple[int, int]:
        """Return the least and the most that a figure stands for."""
        less, more = (value_bytes * percent // 100 for percent in self)
        return value_bytes - less, value_bytes + more


MARGIN = Margin(12, 33)
"""How far the peaks of programs' real runs were from their replays at most.

Of all programs on record, fitted and held out: ``allocmark dev pool-accuracy`` shows each.
"""
BUSY_GPU = {"ALLOCMARK_EMULATOR_POOL_MOVE_CALLS": "24"}
"""A program's GPU is behind its calls, so that free memory of the pool can be moved later.

Fitted to the peaks of real runs; the allocator's own workloads, which run nothing on the GPU, agree
with 2.
"""


def uses(allocator: Allocator) -> bool:
    """Say whether an allocator takes its memory from the driver's pool."""
    return allocator.driver_pool or "cudaMallocAsync" in allocator.environment.get(CONF, "")


def margin(allocator: Allocator, emulated: bool) -> Margin | None:
    """Return by how much a replayed figure may be off because a model stands for the pool."""
    return MARGIN if emulated and uses(allocator) else None
