"""The smallest capacity in which a workload completes."""

from __future__ import annotations

from allocmark.schema.metric import Metric

EXPERIMENT = "capacity"

SEARCH = "search"
"""The series of the search's runs."""

_WORKLOAD = ("workload",)
SMALLEST_CAPACITY_BYTES = Metric(
    "smallest_capacity_bytes", "bytes", "sampled", _WORKLOAD, "the smallest capacity that completes"
)
CAPACITY_RATIO = Metric(
    "capacity_ratio",
    "ratio",
    "sampled",
    _WORKLOAD,
    "the same over the live peak: 1 is the least any allocator needs",
)
RESOLUTION_BYTES = Metric(
    "resolution_bytes", "bytes", "sampled", _WORKLOAD, "the last step of the search"
)
UNLIMITED_DEVICE_BYTES = Metric(
    "unlimited_device_bytes",
    "bytes",
    "sampled",
    _WORKLOAD,
    "what is held without a limit, where the search begins",
)
SEARCH_RUNS = Metric(
    "search_runs", "runs", "sampled", _WORKLOAD, "runs of the workload that the search took"
)
