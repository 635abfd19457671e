"""What torch requested from the driver during a replay, from torch's own history.

Only allocations and segment events are kept where the release can leave out the rest: the place of
an allocation tells at which event of the replay a segment came.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.shared.event_replay import Script
from allocmark.workloads.event_trace import Op

_MOST_ENTRIES = 20_000_000
_LEFT_OUT = ("free_requested", "free_completed", "snapshot")
CALLS = ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
_GROWS = ("segment_alloc", "segment_map")


@dataclass(frozen=True, slots=True)
class DriverHistory:
    """Calls by kind (place in `CALLS`) and size, and where reserved memory was first at its peak.

    `peak_event` is the allocation that needed the last of it, -1 where nothing was reserved.
    """

    counts: Counter[tuple[int, int]]
    peak_event: int
    peak_reserved_bytes: int
    peak_segments: int


def keeps(allocator: Allocator) -> bool:
    """Whether an opened allocator has such a history: torch's native one has."""
    if allocator.framework != "torch" or "PYTORCH_NO_CUDA_MEMORY_CACHING" in allocator.environment:
        return False
    return bool(import_torch().cuda.get_allocator_backend() == "native")


def begin() -> None:
    """Let the history begin, empty."""
    memory: Any = import_torch().cuda.memory
    common = {"context": None, "stacks": "python", "max_entries": _MOST_ENTRIES}
    try:
        memory._record_memory_history("all", **common, skip_actions=list(_LEFT_OUT))
    except TypeError:  # Before torch 2.10 all of it is kept.
        memory._record_memory_history("all", **common)


def end(script: Script, device: int) -> DriverHistory:
    """Stop it and return what it holds."""
    memory: Any = import_torch().cuda.memory
    entries = memory._snapshot()["device_traces"][device]
    memory._record_memory_history(None)
    counts: Counter[tuple[int, int]] = Counter()
    allocations = reserved = peak = segments = most = 0
    peak_allocation = -1
    for entry in entries:
        action = entry["action"]
        if action == "alloc":
            allocations += 1
        elif action in CALLS:
            size = entry["size"]
            counts[CALLS.index(action), size] += 1
            grows = action in _GROWS
            reserved += size if grows else -size
            segments += 1 if grows else -1
            most = max(most, segments)
            if reserved > peak:
                peak, peak_allocation = reserved, allocations
    events = np.flatnonzero(script.trace.op == Op.ALLOC)
    inside = 0 <= peak_allocation < len(events)
    return DriverHistory(counts, int(events[peak_allocation]) if inside else -1, peak, most)
