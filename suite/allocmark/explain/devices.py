"""Every GPU of the machine as NVML shows it, and which of them a process is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocmark.explain.counter_file import CounterReport, Counters
from allocmark.machine import nvml as nvml_meter
from allocmark.system.errors import NoGpuError


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; `processes` are the bytes of each by its id: None where NVML hides them.

    `processes` itself is None where NVML lists none at all.
    """

    uuid: str
    name: str
    driver: str
    processes: Mapping[int, int | None] | None


def read() -> list[Gpu]:
    """Return all GPUs, whether CUDA may see them here or not. Raises `NoGpuError`."""
    nvml = nvml_meter.library()
    try:
        driver, gpus = str(nvml.nvmlSystemGetDriverVersion()), []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
            listed = nvml_meter.processes_on(nvml, handle)
            gpus.append(Gpu(str(uuid), str(name), driver, listed))
    except nvml.NVMLError as error:
        raise NoGpuError(nvml_meter.in_words(error)) from None
    if not gpus:
        raise NoGpuError("the NVIDIA driver sees no GPU on this machine")
    return gpus


def placed(report: CounterReport, gpus: Sequence[Gpu]) -> list[tuple[str | None, Counters]]:
    """Return a process's counters with the GPU of each, None where that cannot be said.

    torch tells it; for the rest it is the ordinal among the GPUs that the process may see, which
    fits where all GPUs are of one kind: among several kinds only CUDA knows the order.
    """
    known = [gpu.uuid for gpu in gpus]
    one_kind = len({gpu.name for gpu in gpus}) == 1
    visible = nvml_meter.visible_uuids(known, report.visible) if one_kind else []
    found: list[tuple[str | None, Counters]] = []
    for counted in report.counters:
        ordinal = visible[counted.device] if counted.device < len(visible) else None
        found.append((counted.uuid if counted.uuid in known else ordinal, counted))
    return found
