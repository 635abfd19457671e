"""What an allocator holds beyond what a workload requests: one vector for each workload."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "fragmentation"
_metric = partial(Metric, EXPERIMENT)

MEMORY = "memory"
"""The series of bytes at about 300 events of a workload."""
EVERY_EVENT = "every-event"
"""The series of a counter's changes."""
DRIVER_REQUESTS = "driver-requests"
"""The series of requests to the driver: 0 refused, below 0 given back."""

_WORKLOAD = ("workload",)
PEAK_REQUESTED_BYTES = _metric(
    "peak_requested_bytes",
    "bytes",
    "exact",
    _WORKLOAD,
    "most bytes the program holds at once: the live peak",
    better="neither",
)
PEAK_ALLOCATED_BYTES = _metric(
    "peak_allocated_bytes", "bytes", "exact", _WORKLOAD, "the same after the allocator's rounding"
)
PEAK_RESERVED_BYTES = _metric(
    "peak_reserved_bytes",
    "bytes",
    "exact",
    _WORKLOAD,
    "most bytes held from the driver; `device_bytes` where there is no such counter",
)
DEVICE_BYTES = _metric(
    "device_bytes", "bytes", "sampled", _WORKLOAD, "largest fall of the device's free memory"
)
WASTE_RATIO = _metric(
    "waste_ratio", "ratio", "exact", _WORKLOAD, "1 - peak_requested_bytes / peak_reserved_bytes"
)
LARGEST_FREE_BYTES = _metric(
    "largest_free_bytes",
    "bytes",
    "exact",
    _WORKLOAD,
    "largest cached block that could be handed out at the live peak",
    better="more",
)
SEGMENTS = _metric(
    "segments", "segments", "exact", _WORKLOAD, "pieces of driver memory at the live peak"
)
DRIVER_ALLOCS = _metric(
    "driver_allocs", "calls", "exact", _WORKLOAD, "requests for memory to the driver"
)
DRIVER_FREES = _metric("driver_frees", "calls", "exact", _WORKLOAD, "releases to the driver")
RETRIES = _metric(
    "retries", "retries", "exact", _WORKLOAD, "allocations tried again after releasing the cache"
)
OOMS = _metric("ooms", "failures", "exact", _WORKLOAD, "failed allocations")
HIT_SHARE = _metric(
    "hit_share",
    "ratio",
    "exact",
    _WORKLOAD,
    "share of allocations without a driver call: 1 - driver_allocs / allocations",
    better="more",
)
REPLAY_SECONDS = _metric(
    "replay_seconds", "seconds", "time", _WORKLOAD, "host time in allocator calls of one run"
)
VECTOR = (
    PEAK_REQUESTED_BYTES,
    PEAK_ALLOCATED_BYTES,
    PEAK_RESERVED_BYTES,
    DEVICE_BYTES,
    WASTE_RATIO,
    LARGEST_FREE_BYTES,
    SEGMENTS,
    DRIVER_ALLOCS,
    DRIVER_FREES,
    RETRIES,
    OOMS,
    HIT_SHARE,
    REPLAY_SECONDS,
)
"""In the order of the table."""
