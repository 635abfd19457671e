"""TensorFlow's GPU allocators; `ALLOCATORS` are its modes as the suite measures them."""

from __future__ import annotations

from allocmark.allocators.base import Tier
from allocmark.allocators.tensorflow_gpu.allocator import TensorFlowAllocator
from allocmark.allocators.tensorflow_gpu.bfc import Bfc
from allocmark.allocators.tensorflow_gpu.driver_pool import TensorFlowDriverPool
from allocmark.allocators.tensorflow_gpu.framework import Mode
from allocmark.system.units import GIB

__all__ = ["ALLOCATORS", "LIMIT_BYTES", "Bfc", "Mode", "TensorFlowAllocator"]

LIMIT_BYTES = 8 * GIB
"""The memory_limit of ``tf-limit``: one region in which every workload of the suite fits."""

ALLOCATORS = (
    # A call takes the same ways as in the fixed region of tf-limit.
    Bfc("tf-greedy", Mode.GREEDY, tier=Tier.SETTING),
    Bfc("tf-growth", Mode.GROWTH),
    Bfc("tf-limit", Mode.LIMIT, LIMIT_BYTES),
    TensorFlowDriverPool("tf-async", Mode.ASYNC),
)
