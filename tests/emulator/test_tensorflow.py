"""TensorFlow's allocators over the emulated driver: what each mode takes, by NVML."""

from __future__ import annotations

import importlib.util

import pytest

from allocmark.emulator.driver_profile import load
from tests.support.emulated_child import emulated

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None, reason="tensorflow is not installed"
)
MIB = 1 << 20
PROFILE = load("h200").numbers
CONTEXT = sum(PROFILE[f"{name}_bytes"] for name in ("driver_init", "context", "context_unlisted"))
CODE = """
import tensorflow as tf
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
def used():
    return pynvml.nvmlDeviceGetMemoryInfo(card).used
mode = sys.argv[1]
gpu = tf.config.list_physical_devices("GPU")[0]
if mode == "growth":
    tf.config.experimental.set_memory_growth(gpu, True)
if mode == "limit":
    limited = tf.config.LogicalDeviceConfiguration(memory_limit=1024)
    tf.config.set_logical_device_configuration(gpu, [limited])
def tensor(mib):
    shape = tf.constant([mib * MIB], tf.int32)
    return tf.raw_ops.Empty(shape=shape, dtype=tf.uint8)
with tf.device("/GPU:0"):
    first = tensor(1); readings = [used()]
    more = [tensor(64) for _ in range(4)]; readings.append(used())
    del first, more; readings.append(used())
report([readings, tf.config.experimental.get_memory_info("GPU:0")["peak"] // MIB])
"""


@pytest.mark.parametrize(
    ("mode", "variables", "after_context"),
    [
        # 8192 - 527 - 1800 = 5865, in 2 MiB pages: greedy leaves 1800 MiB and never gives back.
        ("greedy", {}, [5866, 5866, 5866]),
        # Regions of 2, 4, 8 … MiB, doubling, until the requests fit.
        ("growth", {}, [2, 258, 258]),
        ("limit", {}, [1024, 1024, 1024]),
        ("async", {"TF_GPU_ALLOCATOR": "cuda_malloc_async"}, [32, 288, 288]),
    ],
)
def test_modes(mode: str, variables: dict[str, str], after_context: list[int]) -> None:
    readings, peak = emulated(CODE, memory="8GiB", variables=variables, arguments=[mode])
    assert [(reading - CONTEXT) / MIB for reading in readings] == after_context
    assert 257 <= peak <= 258  # and a constant or two
