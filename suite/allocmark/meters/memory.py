"""Device memory in use, by every meter there is, each under its own name.

None of them is the truth: NVML's per-process figure leaves out what the driver keeps for nobody,
its device figure counts the neighbours, and cudaMemGetInfo can only be asked inside a context.
A reading by one meter is only ever compared with another by the same meter.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Mapping
from typing import Any

from allocmark.machine.nvml import in_words, open_by_uuid, open_device, processes_on
from allocmark.schema.device_meters import MEM_GET_INFO, NVML_DEVICE, NVML_PROCESS
from allocmark.system.errors import NotMeasurableError

Reading = Mapping[str, int | None]
"""Bytes in use by meter, None where one cannot tell."""
CONTEXT_STATE = "cuDevicePrimaryCtxGetState"
"""The meter behind `context_exists`."""
_STILL_S, _STILL_AT_MOST_S = 0.02, 1.0
_UNLISTED = (
    "NVML does not list this process: it has no context yet, or a container hides its process id"
)
_HIDDEN = "NVML lists this process without its memory (so in some containers and under WDDM)"
_NO_LISTS = "NVML does not list processes here"
_INVISIBLE = "CUDA does not see this GPU in this process"
_NO_CONTEXT = "this process has no context, and to ask cudaMemGetInfo would create one"


class MemoryMeters:
    """The meters of one GPU, as CUDA counts it. Raises `NoGpuError` where NVML has none.

    `uuid` names the card where this process may not see it: then `device` is None.
    Made anew in each process: neither NVML nor CUDA survives a fork. A reading takes well under a
    millisecond and creates nothing on the GPU.
    """

    def __init__(self, device: int | None = 0, uuid: str = "") -> None:
        self._device = device
        self._nvml, self._handle = open_by_uuid(uuid) if device is None else open_device(device)
        self._why: dict[str, str] = {}

    def read(self, pid: int | None = None) -> dict[str, int | None]:
        """Return the bytes in use by each meter; None where it cannot tell, see `why`.

        `pid` is the process that `NVML_PROCESS` is about, this one if it is not given.
        """
        answers = {
            NVML_PROCESS: self._process_bytes(os.getpid() if pid is None else pid),
            NVML_DEVICE: self._device_bytes(),
            MEM_GET_INFO: _INVISIBLE
            if self._device is None
            else used_bytes_in_context(self._device),
        }
        self._why = {meter: answer for meter, answer in answers.items() if isinstance(answer, str)}
        return {meter: None if isinstance(n, str) else n for meter, n in answers.items()}

    def why(self, meter: str) -> str | None:
        """Return why the last reading by that meter is None."""
        return self._why.get(meter)

    def neighbours(self) -> Mapping[int, int | None]:
        """Return the bytes of each other process on the GPU, as far as NVML lists them."""
        found = processes_on(self._nvml, self._handle) or {}
        return {pid: count for pid, count in found.items() if pid != os.getpid()}

    def _process_bytes(self, pid: int) -> int | str:
        """Return the bytes, or the reason why they cannot be told."""
        found = processes_on(self._nvml, self._handle)
        if found is None:
            return _NO_LISTS
        if pid not in found:
            return _UNLISTED
        count = found[pid]
        return _HIDDEN if count is None else int(count)

    def _device_bytes(self) -> int | str:
        try:
            return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)
        except self._nvml.NVMLError as error:
            return in_words(error)


def settled(meters: MemoryMeters) -> Reading:
    """Return a reading that was the same twice in a row, or the last one within a second.

    A process that has just ended may still be giving its memory back.
    """
    end = time.monotonic() + _STILL_AT_MOST_S
    reading = meters.read()
    while time.monotonic() < end:
        time.sleep(_STILL_S)
        again = meters.read()
        if again == reading:
            break
        reading = again
    return reading


def context_exists(device: int = 0) -> bool:
    """Return whether this process holds the GPU's primary context, without creating anything."""
    driver = _driver()
    active, flags = ctypes.c_int(), ctypes.c_uint()
    if driver is None:
        return False
    # Fails with CUDA_ERROR_NOT_INITIALIZED before cuInit: then there is none either.
    code = driver.cuDevicePrimaryCtxGetState(
        _ordinal(device), ctypes.byref(flags), ctypes.byref(active)
    )
    return code == 0 and bool(active.value)


def used_bytes_in_context(device: int = 0) -> int | str:
    """Return total less free by cuMemGetInfo, or the reason why it cannot be asked."""
    driver = _driver()
    if driver is None or not context_exists(device):
        return _NO_CONTEXT
    context, popped = ctypes.c_void_p(), ctypes.c_void_p()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    code = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), _ordinal(device))
    if code == 0:
        # Whatever this thread has made current stays so underneath.
        code = driver.cuCtxPushCurrent_v2(context)
        if code == 0:
            code = driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
            driver.cuCtxPopCurrent_v2(ctypes.byref(popped))
        driver.cuDevicePrimaryCtxRelease_v2(_ordinal(device))
    return total.value - free.value if code == 0 else f"cuMemGetInfo failed here ({code})"


def used_bytes(device: int = 0) -> int:
    """Return total less free by cuMemGetInfo. Raises `NotMeasurableError` where it cannot tell."""
    used = used_bytes_in_context(device)
    if isinstance(used, str):
        raise NotMeasurableError(used)
    return used


def _driver() -> Any:
    """Return the driver library if this process has loaded it already."""
    try:
        return ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD)
    except OSError:
        return None


def _ordinal(device: int) -> ctypes.c_int:
    # The driver's device handle is its ordinal; cuDeviceGet only checks the range.
    return ctypes.c_int(device)
