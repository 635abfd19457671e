"""Device memory as NVML (and so nvidia-smi) tells it: of this process, and of the whole device."""

from __future__ import annotations

import ctypes
import importlib
import os
from typing import Any

from allocmark.cuda import runtime
from allocmark.errors import NotMeasurableError


def process_bytes(device: int) -> int:
    """Return what NVML gives this process. Raises `NotMeasurableError` where it does not."""
    nvml, handle = _open(device)
    try:
        running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except nvml.NVMLError as error:
        raise NotMeasurableError(f"NVML does not list processes here ({error})") from None
    for process in running:
        if process.pid == os.getpid() and process.usedGpuMemory is not None:
            return int(process.usedGpuMemory)
    raise NotMeasurableError(
        "NVML does not show this process, or not its memory (so in containers and under WDDM)"
    )


def device_bytes(device: int) -> int:
    """Return what NVML says is used of the device, by everybody and the driver itself."""
    nvml, handle = _open(device)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).used)


def _open(device: int) -> tuple[Any, Any]:
    """Find the runtime's device by its PCI bus: the two count differently."""
    try:
        pynvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise NotMeasurableError(f"nvidia-ml-py cannot be imported here ({error})") from None
    bus = ctypes.create_string_buffer(32)
    runtime.call("cudaDeviceGetPCIBusId", bus, ctypes.c_int(32), ctypes.c_int(device))
    try:
        pynvml.nvmlInit()
        return pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(bus.value)
    except pynvml.NVMLError as error:
        raise NotMeasurableError(f"NVML cannot be used here ({error})") from None
