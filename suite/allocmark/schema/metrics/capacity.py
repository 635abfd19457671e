"""The smallest capacity in which a workload completes."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "capacity"
_sampled = partial(metric, EXPERIMENT, "sampled")

SEARCH = "search"
"""The series of the search's runs."""

SMALLEST_CAPACITY_BYTES = _sampled(
    "smallest_capacity_bytes", "the smallest capacity that completes", "workload"
)
CAPACITY_RATIO = _sampled(
    "capacity_ratio", "the same over the live peak: 1 is the least any allocator needs", "workload"
)
RESOLUTION_BYTES = _sampled("resolution_bytes", "the last step of the search", "workload")
UNLIMITED_DEVICE_BYTES = _sampled(
    "unlimited_device_bytes", "what is held without a limit, where the search begins", "workload"
)
SEARCH_RUNS = _sampled("search_runs", "runs of the workload that the search took", "workload")
