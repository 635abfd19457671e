"""The smallest capacity in which a workload completes."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "capacity"
_metric = partial(Metric, EXPERIMENT)

SEARCH = "search"
"""The series of the search's runs."""

_WORKLOAD = ("workload",)
SMALLEST_CAPACITY_BYTES = _metric(
    "smallest_capacity_bytes", "bytes", "sampled", _WORKLOAD, "the smallest capacity that completes"
)
CAPACITY_RATIO = _metric(
    "capacity_ratio",
    "ratio",
    "sampled",
    _WORKLOAD,
    "the same over the live peak: 1 is the least any allocator needs",
)
RESOLUTION_BYTES = _metric(
    "resolution_bytes", "bytes", "sampled", _WORKLOAD, "the last step of the search"
)
UNLIMITED_DEVICE_BYTES = _metric(
    "unlimited_device_bytes",
    "bytes",
    "sampled",
    _WORKLOAD,
    "what is held without a limit, where the search begins",
)
SEARCH_RUNS = _metric(
    "search_runs", "runs", "sampled", _WORKLOAD, "runs of the workload that the search took"
)
