"""Estimated time in the driver: the calls of a replay times what each was measured to take."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from allocmark.emulator import driver_profile
from allocmark.emulator.driver_profile import Profile
from allocmark.system.units import MIB

_HANDLES = (20 * MIB, 2 * MIB)
"""torch maps expandable segments in handles of the first size, those of small blocks of the second."""  # noqa: E501
_CALLS = ("cudaMalloc", "cudaFree", "cuMemCreate", "cuMemRelease")
"""By kind, in the order of `allocmark.experiments.shared.driver_history.CALLS`."""
_FIRST_OF_HANDLES = 2


@dataclass(frozen=True, slots=True)
class DriverTime:
    """Seconds, the number of driver calls, and whose times they are."""

    seconds: float
    calls: int
    source: str


def estimate(columns: Mapping[str, Sequence[float]], gpu: str) -> DriverTime:
    """Return the time of the calls in a series ``driver_calls`` (kind, size, calls)."""
    chosen = driver_profile.of_gpu(gpu)
    total_ns, total_calls = 0.0, 0
    names = ("kind", "size", "calls")
    for kind, size, times in zip(*(columns[name] for name in names), strict=True):
        calls, each = _calls(int(kind), int(size))
        total_ns += times * calls * _ns(chosen, _CALLS[int(kind)], each)
        total_calls += int(times * calls)
    source = f"medians measured one by one on the {chosen.name}"
    return DriverTime(total_ns / 1e9, total_calls, source)


def _calls(kind: int, size: int) -> tuple[int, int]:
    """Return how many calls an event of that kind and size is, and the bytes of each."""
    if kind < _FIRST_OF_HANDLES:
        return 1, size
    handle = next((handle for handle in _HANDLES if size % handle == 0), size)
    return max(1, size // handle), handle


def _ns(chosen: Profile, call: str, size: int) -> float:
    """Return a call's nanoseconds, on straight lines between the measured sizes, logarithmic."""
    table = chosen.call_times_ns[call]
    sizes = list(table)
    if size <= sizes[0]:
        return table[sizes[0]]
    if size >= sizes[-1]:
        return table[sizes[-1]] * size / sizes[-1]
    above = next(place for place, known in enumerate(sizes) if known >= size)
    low, high = sizes[above - 1], sizes[above]
    share = math.log(size / low) / math.log(high / low)
    return float(table[low] * (table[high] / table[low]) ** share)
