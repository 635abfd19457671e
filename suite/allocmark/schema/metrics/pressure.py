"""What each counter shows as memory is taken and freed, and what comes before an OOM."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "pressure"
_metric = partial(Metric, EXPERIMENT)

POINTS = BEFORE, TAKEN, HALF_FREED, HALF_EMPTIED, ALL_FREED, ALL_EMPTIED = (
    "before",
    "1 GiB taken",
    "half freed",
    "half freed, cache emptied",
    "all freed",
    "all freed, cache emptied",
)
"""Values of ``point``, in the order of the program."""

WHYS = LIVE_BLOCKS, INACTIVE_SPLIT, FREE_SEGMENTS, OUTSIDE = (
    "live blocks",
    "free in segments with live blocks",
    "free segments",
    "outside the allocator",
)
"""Values of ``why``: what memory is held for."""

ALLOCATED, RESERVED = "allocated", "reserved"
STATS_REQUESTED = "memory_stats requested"
STATS_ACTIVE = "memory_stats active"
STATS_INACTIVE_SPLIT = "memory_stats inactive_split"
SUMMARY_ALLOCATED = "memory_summary allocated"
SUMMARY_RESERVED = "memory_summary reserved"
SUMMARY_NON_RELEASABLE = "memory_summary non-releasable"
MEM_GET_INFO_USED = "cudaMemGetInfo used"
NVML_PROCESS, NVML_DEVICE = "NVML process", "NVML device"
COUNTERS = (
    ALLOCATED,
    RESERVED,
    STATS_REQUESTED,
    STATS_ACTIVE,
    STATS_INACTIVE_SPLIT,
    SUMMARY_ALLOCATED,
    SUMMARY_RESERVED,
    SUMMARY_NON_RELEASABLE,
    MEM_GET_INFO_USED,
    NVML_PROCESS,
    NVML_DEVICE,
)
"""Values of ``counter``."""

SIGNS = CACHE_SHARE, UNRETURNABLE_SHARE = ("cache_share", "unreturnable_share")
"""Values of ``sign``: cached over reserved; what cannot be released over capacity."""
LEVELS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Values of ``above``. 30 % of cache is said to be a sign; the others are for rules tuned later,
which choose among them and so have a lead."""
LEAD_EVENTS = 100
"""What a ``*_before`` figure holds was read at least so many events before the failure."""
NO_LEAD = f"it ended before event {LEAD_EVENTS}: no reading lies {LEAD_EVENTS} events before that"
"""The reason of these figures of a run that ended earlier."""
TOWARDS_OOM = "towards-oom"
"""The series of counters on the way."""

SHOWN_BYTES = _metric(
    "shown_bytes",
    "bytes",
    "exact",
    ("point", "counter"),
    "what that counter shows at that point",
    better="neither",
)
KEPT_BYTES = _metric(
    "kept_bytes", "bytes", "exact", ("point", "why"), "what the process still holds, and why"
)
FIRST_RESERVED_BYTES = _metric(
    "first_reserved_bytes",
    "bytes",
    "exact",
    ("bytes",),
    "reserved after one request of that size from nothing",
    better="neither",
)
SUMMARY_AGREES = _metric(
    "summary_agrees",
    "share",
    "exact",
    ("point",),
    "1 where memory_summary shows what the block map does, in the units it prints",
    better="more",
)


def _on_the_way(name: str, unit: str, help: str) -> Metric:
    return _metric(name, unit, "sampled", ("workload", "capacity_ratio"), help, better="neither")


CAPACITY_BYTES = _on_the_way("capacity_bytes", "bytes", "what the ballast left to the process")
COMPLETED = _metric(
    "completed",
    "share",
    "sampled",
    ("workload", "capacity_ratio"),
    "1 where the workload completed",
    better="more",
)
FAILED_EVENT = _on_the_way("failed_event", "event", "the event that failed")
FAILED_REQUEST_BYTES = _on_the_way("failed_request_bytes", "bytes", "what it requested")
FAILED_CACHED_BYTES = _on_the_way(
    "failed_cached_bytes", "bytes", "reserved less allocated as it failed"
)
FAILED_LARGEST_FREE_BYTES = _on_the_way(
    "failed_largest_free_bytes", "bytes", "of it the largest block"
)
FAILED_DEVICE_FREE_BYTES = _on_the_way(
    "failed_device_free_bytes", "bytes", "what was free outside the allocator"
)
RETRIES = _on_the_way("retries", "retries", "allocations tried again after releasing the cache")
RETRIES_BEFORE = _on_the_way("retries_before", "retries", "of these, seen early enough to act on")
CACHE_SHARE_MAX = _on_the_way("cache_share_max", "ratio", "largest 1 - allocated / reserved")
CACHE_SHARE_MAX_BEFORE = _on_the_way(
    "cache_share_max_before", "ratio", "the same, seen early enough"
)
CACHE_SHARE_LAST_BEFORE = _on_the_way(
    "cache_share_last_before", "ratio", "its last reading early enough"
)
INACTIVE_SPLIT_BYTES_MAX_BEFORE = _on_the_way(
    "inactive_split_bytes_max_before", "bytes", "most inactive split bytes seen early enough"
)
RESERVED_SHARE_LAST_BEFORE = _on_the_way(
    "reserved_share_last_before", "ratio", "reserved over capacity, last reading early enough"
)
UNRETURNABLE_SHARE_MAX_BEFORE = _on_the_way(
    "unreturnable_share_max_before",
    "ratio",
    "live and inactive split bytes over capacity, the most seen early enough",
)
FIRST_RETRY_EVENT = _on_the_way(
    "first_retry_event", "event", "first event looked at that showed a retry"
)
FIRST_ABOVE_EVENT = _metric(
    "first_above_event",
    "event",
    "sampled",
    ("workload", "capacity_ratio", "sign", "above"),
    "first event looked at that showed a larger share",
    better="neither",
)
ON_THE_WAY = (
    CAPACITY_BYTES,
    COMPLETED,
    FAILED_EVENT,
    FAILED_REQUEST_BYTES,
    FAILED_CACHED_BYTES,
    FAILED_LARGEST_FREE_BYTES,
    FAILED_DEVICE_FREE_BYTES,
    RETRIES,
    RETRIES_BEFORE,
    CACHE_SHARE_MAX,
    CACHE_SHARE_MAX_BEFORE,
    CACHE_SHARE_LAST_BEFORE,
    INACTIVE_SPLIT_BYTES_MAX_BEFORE,
    RESERVED_SHARE_LAST_BEFORE,
    UNRETURNABLE_SHARE_MAX_BEFORE,
    FIRST_RETRY_EVENT,
)
"""Of each run of a workload in a capacity, in the order of the table."""
SEEN_BEFORE = tuple(metric for metric in ON_THE_WAY if metric.name.endswith("_before"))
"""Those that a run has only where something was read early enough."""
