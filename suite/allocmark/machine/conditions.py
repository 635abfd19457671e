"""What else held while something was measured: neighbours, clocks, modes, and the host.

Every field is None where it cannot be read: NVML answers "not supported" for many of them on
consumer cards, in virtual machines and in containers.

Source: NVML API reference, "Device Queries" and "NvmlClocksEventReasons".
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from allocmark.machine.nvml import as_text, open_device, processes_on, read_or_none
from allocmark.system.errors import NoGpuError

_SLOWED_BY = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}
"""Reasons for a lower clock that spoil a measurement; an idle GPU and set clocks do not."""
_COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
_WDDM = 0
_MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_MPS_DEFAULT = "/tmp/nvidia-mps"
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_GROUPS = re.compile(r"docker|kubepods|containerd|libpod|lxc")


@dataclass(frozen=True, slots=True)
class Conditions:
    """One reading. Clocks in MHz, utilization in percent of the last sampling period.

    `gpu_count` are all GPUs of the machine, visible to CUDA or not. `other_processes` are those
    that use the GPU, this one left out, and `other_process_bytes` what they hold of it (None where
    NVML hides it). `process_memory` says whether NVML tells what a process holds; with no process
    on the GPU it cannot be said.
    """

    gpu_uuid: str | None = None
    gpu_count: int | None = None
    other_processes: int | None = None
    other_process_bytes: int | None = None
    process_memory: bool | None = None
    device_used_bytes: int | None = None
    gpu_utilization_percent: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    slowed_by: Sequence[str] | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    ecc: bool | None = None
    mig: bool | None = None
    mps: bool | None = None
    persistence: bool | None = None
    compute_mode: str | None = None
    wddm: bool | None = None
    container: bool | None = None
    host_name: str | None = None
    cpu_model: str | None = None
    cpu_count: int | None = None
    governor: str | None = None
    kernel: str | None = None
    host_memory_bytes: int | None = None
    load_average: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def read_conditions(device: int = 0) -> Conditions:
    """Return the conditions now of the GPU that CUDA counts as `device`. Never raises."""
    try:
        nvml, handle = open_device(device)
    except NoGpuError:
        gpu: dict[str, Any] = {}
    else:
        gpu = {
            "gpu_uuid": read_or_none(lambda: as_text(nvml.nvmlDeviceGetUUID(handle))),
            "gpu_count": read_or_none(lambda: int(nvml.nvmlDeviceGetCount())),
        }
        gpu |= {**_neighbours(nvml, handle), **_state(nvml, handle), **_modes(nvml, handle)}
    return Conditions(**gpu, mps=_mps(), **_host())


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return each field that changed between two readings (as `to_json` gives them), with both."""
    names = dict.fromkeys([*before, *after])
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _neighbours(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    found = processes_on(nvml, handle)
    memory = read_or_none(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    facts: dict[str, Any] = {"device_used_bytes": int(memory.used) if memory else None}
    if found is None:
        return facts | {"process_memory": False}
    others = [count for pid, count in found.items() if pid != os.getpid()]
    known = [count for count in others if count is not None]
    return facts | {
        "other_processes": len(others),
        "other_process_bytes": sum(known) if len(known) == len(others) else None,
        "process_memory": all(count is not None for count in found.values()) if found else None,
    }


def _state(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    def clock(which: str, kind: int) -> int | None:
        return read_or_none(lambda: int(getattr(nvml, which)(handle, kind)))

    rates = read_or_none(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    power = read_or_none(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    limit = read_or_none(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    reasons = read_or_none(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return {
        "gpu_utilization_percent": int(rates.gpu) if rates else None,
        "sm_clock_mhz": clock("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        "sm_clock_max_mhz": clock("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": clock("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        "memory_clock_max_mhz": clock("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        "slowed_by": None
        if reasons is None
        else tuple(words for bit, words in _SLOWED_BY.items() if reasons & bit),
        "temperature_c": read_or_none(
            lambda: int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        ),
        "power_w": None if power is None else power / 1000,
        "power_limit_w": None if limit is None else limit / 1000,
    }


def _modes(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    ecc = read_or_none(lambda: nvml.nvmlDeviceGetEccMode(handle)[0])
    mig = read_or_none(lambda: nvml.nvmlDeviceGetMigMode(handle)[0])
    persistence = read_or_none(lambda: nvml.nvmlDeviceGetPersistenceMode(handle))
    model = read_or_none(lambda: nvml.nvmlDeviceGetCurrentDriverModel(handle))
    mode = read_or_none(lambda: nvml.nvmlDeviceGetComputeMode(handle))
    return {
        "ecc": _yes(ecc),
        "mig": _yes(mig),
        "persistence": _yes(persistence),
        "wddm": None if model is None else model == _WDDM,
        "compute_mode": None if mode is None else _COMPUTE_MODES.get(mode, str(mode)),
    }


def _yes(mode: int | None) -> bool | None:
    return None if mode is None else mode == 1


def _mps() -> bool:
    """Return whether a multi-process service is reachable: CUDA uses it if it is."""
    return Path(os.environ.get(_MPS_PIPES) or _MPS_DEFAULT, "control").exists()


def _host() -> dict[str, Any]:
    return {
        "container": _container(),
        "host_name": platform.node() or None,
        "cpu_model": _line_after("/proc/cpuinfo", "model name") or platform.processor() or None,
        "cpu_count": len(os.sched_getaffinity(0)),
        "governor": _content("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "kernel": platform.release() or None,
        "host_memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": _load_average(),
    }


def _container() -> bool | None:
    if any(Path(name).exists() for name in _CONTAINER_FILES):
        return True
    groups = _content("/proc/1/cgroup")
    return None if groups is None else bool(_CONTAINER_GROUPS.search(groups))


def _load_average() -> float | None:
    """Return the processes that wanted a CPU, on average over the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def _line_after(path: str, key: str) -> str | None:
    for line in (_content(path) or "").splitlines():
        name, colon, text = line.partition(":")
        if colon and name.strip() == key:
            return text.strip()
    return None


def _content(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
