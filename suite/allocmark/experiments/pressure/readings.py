"""The counters a user can look at, each read with its name: one place for all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import import_torch
from allocmark.cuda import runtime
from allocmark.meters.memory import MemoryMeters
from allocmark.schema.device_meters import NVML_DEVICE, NVML_PROCESS
from allocmark.schema.metrics import pressure as metrics
from allocmark.system.errors import NoGpuError, NotMeasurableError
from allocmark.system.units import GIB, KIB, MIB

_STATS, _SUMMARY = "memory_stats", "memory_summary"
DEVICE_METERS = ("cudaMemGetInfo", metrics.NVML_PROCESS, metrics.NVML_DEVICE)
"""Meters that other processes, or the context, can disturb; the rest show the allocator alone."""

_SUMMARY_ROW = re.compile(r"\|\s*([\w -]+?) memory\s*\|\s*(\d+) (B|KiB|MiB|GiB|TiB) ")
_SUMMARY_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": 1024 * GIB}
_SUMMARY_ROWS = {
    "allocated": "Allocated",
    "reserved": "GPU reserved",
    "non-releasable": "Non-releasable",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """What one counter shows, in bytes; `unit_bytes` is the step it is rounded down to."""

    value: int
    meter: str
    unit_bytes: int = 1


Reading = Shown | NotMeasurableError


@dataclass(frozen=True, slots=True)
class BlockMap:
    """What a caching allocator's segments consist of, in bytes."""

    live: int = 0
    pinned_free: int = 0
    """Free bytes in segments that also hold live blocks."""
    free_segments: int = 0

    @property
    def reserved(self) -> int:
        """All of it."""
        return self.live + self.pinned_free + self.free_segments


def read_counters(allocator: Allocator, device: int) -> dict[str, Reading]:
    """Return what every counter shows now, or why it shows nothing."""
    stats = allocator.stats()
    free, total = runtime.memory_info()
    return {
        metrics.ALLOCATED: _own(allocator, stats.allocated_bytes),
        metrics.RESERVED: _own(allocator, stats.reserved_bytes),
        **_torch_stats(allocator),
        **_torch_summary(allocator),
        metrics.MEM_GET_INFO_USED: Shown(total - free, "cudaMemGetInfo"),
        **_nvml(device),
    }


def block_map(allocator: Allocator) -> BlockMap:
    """Return what the allocator's segments consist of. Raises `NotMeasurableError`."""
    try:
        segments = allocator.segment_map()
    except RuntimeError as error:
        words = str(error).split(". ")[0]
        raise NotMeasurableError(f"{allocator.name} shows no map of its blocks ({words})") from None
    if segments is None:
        raise NotMeasurableError(f"{allocator.name} shows no map of its blocks")
    live = pinned = unused = 0
    for size, taken in segments:
        live += taken
        pinned += size - taken if taken else 0
        unused += 0 if taken else size
    return BlockMap(live, pinned, unused)


def summary_agrees(shown: Mapping[str, Reading], blocks: BlockMap) -> bool:
    """Whether memory_summary shows what the block map says, as far as its units let it."""
    pairs = {
        "allocated": blocks.live,
        "reserved": blocks.reserved,
        "non-releasable": blocks.pinned_free,
    }
    for name, counted in pairs.items():
        reading = shown[f"memory_summary {name}"]
        if isinstance(reading, NotMeasurableError):
            raise reading
        if counted // reading.unit_bytes * reading.unit_bytes != reading.value:
            return False
    return True


def parse_summary(text: str) -> dict[str, Shown]:
    """Return the first column (current usage) of the rows of bytes of a memory_summary."""
    rows: dict[str, Shown] = {}
    for name, number, unit in _SUMMARY_ROW.findall(text):
        factor = _SUMMARY_UNITS[unit]
        rows.setdefault(name, Shown(int(number) * factor, _SUMMARY, factor))
    return rows


def _own(allocator: Allocator, value: int | None) -> Reading:
    if value is None:
        return NotMeasurableError(f"{allocator.name} keeps no such counter")
    return Shown(value, allocator.meter)


def _torch_stats(allocator: Allocator) -> dict[str, Reading]:
    names = ("requested", "active", "inactive_split")
    if allocator.framework != "torch":
        why = NotMeasurableError("memory_stats is torch's")
        return {f"memory_stats {name}": why for name in names}
    stats: Mapping[str, int] = import_torch().cuda.memory_stats()
    readings: dict[str, Reading] = {}
    for name in names:
        value = stats.get(f"{name}_bytes.all.current")
        readings[f"memory_stats {name}"] = (
            Shown(value, _STATS)
            if value is not None
            else NotMeasurableError(f"memory_stats has no {name}_bytes")
        )
    return readings


def _torch_summary(allocator: Allocator) -> dict[str, Reading]:
    if allocator.framework != "torch":
        why = NotMeasurableError("memory_summary is torch's")
        return {f"memory_summary {name}": why for name in _SUMMARY_ROWS}
    rows = parse_summary(import_torch().cuda.memory_summary())
    return {
        f"memory_summary {name}": rows.get(row)
        or NotMeasurableError(f"memory_summary has no row {row} memory")
        for name, row in _SUMMARY_ROWS.items()
    }


def _nvml(device: int) -> dict[str, Reading]:
    names = {metrics.NVML_PROCESS: NVML_PROCESS, metrics.NVML_DEVICE: NVML_DEVICE}
    try:
        meters = MemoryMeters(device)
    except NoGpuError as error:
        return {name: NotMeasurableError(str(error)) for name in names}
    read = meters.read()
    readings: dict[str, Reading] = {}
    for name, meter in names.items():
        value = read[meter]
        why = meters.why(meter) or f"{name} shows nothing"
        readings[name] = NotMeasurableError(why) if value is None else Shown(value, name)
    return readings
