"""Every GPU of the machine as NVML shows it, and which of them a process is on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocmark.explain.counter_file import Counters, Told
from allocmark.machine import nvml as nvml_meter
from allocmark.system.errors import NoGpuError


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU; `processes` are the bytes of each by its id: None where NVML hides them.

    `processes` itself is None where NVML lists none at all.
    """

    uuid: str
    gpu: str
    driver: str
    processes: Mapping[int, int | None] | None


def read() -> list[Card]:
    """Return all GPUs, whether CUDA may see them here or not. Raises `NoGpuError`."""
    nvml = nvml_meter.library()
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        driver = str(nvml.nvmlSystemGetDriverVersion())
        cards = [
            Card(
                uuid=str(nvml.nvmlDeviceGetUUID(handle)),
                gpu=str(nvml.nvmlDeviceGetName(handle)),
                driver=driver,
                processes=nvml_meter.processes_on(nvml, handle),
            )
            for handle in handles
        ]
    except nvml.NVMLError as error:
        raise NoGpuError(nvml_meter.in_words(error)) from None
    if not cards:
        raise NoGpuError("the NVIDIA driver sees no GPU on this machine")
    return cards


def placed(told: Told, cards: Sequence[Card]) -> list[tuple[str | None, Counters]]:
    """Return a process's counters with the card of each, None where that cannot be said.

    torch tells it; for the rest it is the ordinal among the cards that the process may see, which
    fits where all cards are of one kind: among several kinds only CUDA knows the order.
    """
    known = [card.uuid for card in cards]
    one_kind = len({card.gpu for card in cards}) == 1
    visible = nvml_meter.visible_uuids(known, told.visible) if one_kind else []
    found: list[tuple[str | None, Counters]] = []
    for one in told.counters:
        ordinal = visible[one.device] if one.device < len(visible) else None
        found.append((one.uuid if one.uuid in known else ordinal, one))
    return found
