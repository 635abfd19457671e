"""Peer access between emulated devices: contexts, errors, and nothing else."""

from __future__ import annotations

from tests.support.emulated_child import emulated

PEERS = """
import pynvml
pynvml.nvmlInit()
def enable(device, peer, flags=0):
    assert runtime("cudaSetDevice", device) == 0
    return runtime("cudaDeviceEnablePeerAccess", peer, flags)
def used():
    return [pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(i)).used
            for i in range(pynvml.nvmlDeviceGetCount())]
def active(device):
    flags, state = ctypes.c_uint(), ctypes.c_int()
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(state))
    return state.value
"""


def test_both_devices_get_a_context_that_stays() -> None:
    code = """
driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
codes = [enable(0, 2)]
before = [active(device) for device in range(4)]
# Whoever retains and releases it from outside does not end it: the runtime holds it too.
driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 2)
driver.cuDevicePrimaryCtxRelease_v2(2)
shown = used()
report([codes, before, [active(device) for device in range(4)], shown[0] == shown[2],
        shown[1] == shown[3] < shown[0]])
"""
    holds = [1, 0, 1, 0]
    assert emulated(PEERS + code, devices=4) == [[0], holds, holds, True, True]


def test_errors_are_the_runtimes() -> None:
    code = """
first = enable(0, 1)
codes = [enable(0, 1), runtime("cudaGetLastError"), enable(1, 0), enable(0, 0), enable(0, 9),
         enable(0, 1, 1)]
runtime("cudaSetDevice", 0)
runtime("cudaDeviceReset")
report([first, codes, enable(0, 1)])
"""
    assert emulated(PEERS + code, devices=2) == [0, [704, 704, 0, 101, 101, 1], 0]
