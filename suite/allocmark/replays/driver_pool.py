"""The driver's own pool in replays without a GPU: a model of it, so an interval, no figure."""

from __future__ import annotations

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import CONF

FITTED = frozenset({"captured_graphs", "detection", "graph_network", "serving"})
"""The programs that the model was fitted to: every second one by name of the eight that there were.

All others, those that were written since among them, are held out.
"""
MARGIN_PERCENT = 7
"""How far the peak of a program's real run was from its replay at most, in percent of the replay.

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


def margin_percent(allocator: Allocator, emulated: bool) -> int:
    """Return by how much a replayed figure may be off because a model stands for the pool."""
    return MARGIN_PERCENT if emulated and uses(allocator) else 0
