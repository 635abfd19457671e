"""Meters of device memory: names of the axis ``meter``, and of the figures read by them."""

from __future__ import annotations

NVML_PROCESS = "nvml_process"
"""What NVML lists for one process: its context and all that it allocated."""
NVML_DEVICE = "nvml_device"
"""What NVML calls used on the whole GPU, whoever uses it."""
MEM_GET_INFO = "mem_get_info"
"""Total less free as cudaMemGetInfo gives them: the whole GPU, seen from inside a context."""
METERS = (NVML_PROCESS, NVML_DEVICE, MEM_GET_INFO)
