"""What the emulated driver refuses stands in the reason of a cell, behind what a framework says."""

from __future__ import annotations

from tests.support.emulated_child import emulated

WORDS = """
from allocmark.system.errors import NotMeasurableError
from allocmark.experiments.shared.forked import in_fork
from allocmark.experiments.core.recorder import in_words
driver, table = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
errors = RuntimeError("CUDA error: operation not supported"), NotMeasurableError("no usable GPU")
def words():
    return [in_words(error) for error in errors]
"""


def test_a_function_that_it_lacks() -> None:
    code = """
before = words()
runtime("cudaMallocManaged"), driver.cuGraphCreate(None, 0)
report([before, words()])
"""
    plain = ["RuntimeError: CUDA error: operation not supported", "no usable GPU"]
    told = [f"{plain[0]}: the emulated driver lacks cuGraphCreate", plain[1]]
    assert emulated(WORDS + code) == [plain, told]


def test_a_runtime_that_is_not_ours() -> None:
    code = """
def ask():
    driver.cuGetExportTable(ctypes.byref(table), bytes(16))
    raise errors[1]
try:
    in_fork(ask)
except NotMeasurableError as error:
    first = in_words(error)
driver.cuGetExportTable(ctypes.byref(table), bytes(16))
again = in_words(NotMeasurableError(first))
report([first, again, *words()])
"""
    why = "it brings a CUDA runtime of its own, which the emulated driver does not run"
    assert emulated(WORDS + code) == [
        *(f"no usable GPU: {why}", f"no usable GPU: {why}"),
        *(f"RuntimeError: CUDA error: operation not supported: {why}", f"no usable GPU: {why}"),
    ]
