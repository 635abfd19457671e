"""TensorFlow's GPU allocators; `ALLOCATORS` are its modes as the suite measures them."""

from __future__ import annotations

from allocmark.allocators.base import Tier
from allocmark.allocators.tensorflow_gpu.bfc import Bfc
from allocmark.allocators.tensorflow_gpu.driver_pool import TensorFlowDriverPool
from allocmark.allocators.tensorflow_gpu.framework import Mode
from allocmark.system.message import Message
from allocmark.system.units import GIB

MODES = {f"tf-{mode.value}": mode for mode in Mode}
"""The mode of each allocator."""
GREEDY, GROWTH, LIMIT, DRIVER_POOL = MODES

LIMIT_BYTES = 8 * GIB
"""The memory_limit of ``tf-limit``: one region in which every workload of the suite fits."""

_LIMIT = Message("TensorFlow with a memory_limit: one region of that size")
_POOL = Message("TensorFlow over the driver's pool (cudaMallocAsync)")
ALLOCATORS = (
    # A setting: a call takes the same ways as in the fixed region of tf-limit.
    Bfc(GREEDY, Mode.GREEDY, tier=Tier.SETTING, description=Message("TensorFlow as it comes")),
    Bfc(GROWTH, Mode.GROWTH, order=20, description=Message("TensorFlow with set_memory_growth")),
    Bfc(LIMIT, Mode.LIMIT, LIMIT_BYTES, order=21, description=_LIMIT),
    TensorFlowDriverPool(DRIVER_POOL, Mode.ASYNC, order=22, description=_POOL),
)
