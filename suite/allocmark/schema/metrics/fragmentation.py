"""What an allocator holds beyond what a workload requests: one vector for each workload."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import declared_in, metric

EXPERIMENT = "fragmentation"
_exact = partial(metric, EXPERIMENT, "exact")
_sampled = partial(metric, EXPERIMENT, "sampled")
_time = partial(metric, EXPERIMENT, "time")

MEMORY = "memory"
"""The series of bytes at about 300 events of a workload."""
EVERY_EVENT = "every-event"
"""The series of a counter's changes."""
DRIVER_REQUESTS = "driver-requests"
"""The series of requests to the driver: 0 refused, below 0 given back."""

PEAK_REQUESTED_BYTES = _exact(
    "peak_requested_bytes", "the live peak of the program", "workload", better="neither"
)
PEAK_ALLOCATED_BYTES = _exact(
    "peak_allocated_bytes", "the same after the allocator's rounding", "workload"
)
PEAK_RESERVED_BYTES = _exact(
    "peak_reserved_bytes", "most bytes held from the driver, or `device_bytes`", "workload"
)
DEVICE_BYTES = _sampled("device_bytes", "largest fall of the device's free memory", "workload")
WASTE_RATIO = _exact("waste_ratio", "1 - peak_requested_bytes / peak_reserved_bytes", "workload")
LARGEST_FREE_BYTES = _exact(
    "largest_free_bytes", "largest cached block at the live peak", "workload", better="more"
)
SEGMENTS = _exact("segments", "pieces of driver memory at the live peak", "workload")
DRIVER_ALLOCS = _exact(
    "driver_allocs", "requests for memory to the driver", "workload", unit="calls"
)
DRIVER_FREES = _exact("driver_frees", "releases to the driver", "workload", unit="calls")
RETRIES = _exact("retries", "allocations tried again after releasing the cache", "workload")
OOMS = _exact("ooms", "failed allocations", "workload", unit="failures")
HIT_SHARE = _exact(
    "hit_share", "1 - driver_allocs / allocations", "workload", unit="ratio", better="more"
)
REPLAY_SECONDS = _time(
    "replay_seconds", "host time in allocator calls of one run", "workload", unit="seconds"
)
VECTOR = declared_in(globals())
"""In the order of the table."""
