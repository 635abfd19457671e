"""What each counter shows as memory is taken and freed, and what comes before an OOM."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric, declared_in, metric

EXPERIMENT = "pressure"
_exact = partial(metric, EXPERIMENT, "exact")
_sampled = partial(metric, EXPERIMENT, "sampled")

BEFORE, TAKEN = "before", "1 GiB taken"
HALF_FREED, HALF_EMPTIED = "half freed", "half freed, cache emptied"
ALL_FREED, ALL_EMPTIED = "all freed", "all freed, cache emptied"
POINTS = (BEFORE, TAKEN, HALF_FREED, HALF_EMPTIED, ALL_FREED, ALL_EMPTIED)
"""Values of ``point``, in the order of the program."""

LIVE_BLOCKS, INACTIVE_SPLIT = "live blocks", "free in segments with live blocks"
FREE_SEGMENTS, OUTSIDE = "free segments", "outside the allocator"
WHYS = (LIVE_BLOCKS, INACTIVE_SPLIT, FREE_SEGMENTS, OUTSIDE)
"""Values of ``why``: what memory is held for."""

ALLOCATED, RESERVED = "allocated", "reserved"
_STATS = ("memory_stats requested", "memory_stats active", "memory_stats inactive_split")
_SUMMARY = tuple(f"memory_summary {what}" for what in ("allocated", "reserved", "non-releasable"))
*_, SUMMARY_NON_RELEASABLE = _SUMMARY
_OF_DEVICE = ("cudaMemGetInfo used", "NVML process", "NVML device")
MEM_GET_INFO_USED, NVML_PROCESS, NVML_DEVICE = _OF_DEVICE
COUNTERS = (ALLOCATED, RESERVED, *_STATS, *_SUMMARY, *_OF_DEVICE)
"""Values of ``counter``."""

CACHE_SHARE, UNRETURNABLE_SHARE = "cache_share", "unreturnable_share"
RESERVED_CACHE_SHARE = "reserved_cache_share"
SIGNS = (CACHE_SHARE, UNRETURNABLE_SHARE, RESERVED_CACHE_SHARE)
"""Values of ``sign``: cached over reserved; what cannot be released over capacity; the first of
these where `FAIR_SHARE` of the capacity is reserved."""
FAIR_SHARE = 0.25
"""From this part of the capacity on a cache is more than what a first tensor leaves: a share of
next to nothing says nothing of the capacity."""
CACHE_LEVEL = 0.3
"""The cache share from which the source document speaks of serious fragmentation."""
LEVELS = (0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95)
"""Values of ``above``. 30 % of cache is said to be a sign; the others are for rules tuned later,
which choose among them and so have a lead."""
LEAD_EVENTS = 100
"""What a ``*_before`` figure holds was read at least so many events before the failure."""
NO_LEAD = f"it ended before event {LEAD_EVENTS}: no reading lies {LEAD_EVENTS} events before that"
"""The reason of these figures of a run that ended earlier."""
TOWARDS_OOM = "towards-oom"
"""The series of counters on the way."""

SHOWN_BYTES = _exact("shown_bytes", "what that counter shows", "point", "counter", better="neither")
KEPT_BYTES = _exact("kept_bytes", "what the process still holds, and why", "point", "why")
FIRST_RESERVED_BYTES = _exact(
    "first_reserved_bytes",
    "reserved after one such request from nothing",
    "bytes",
    better="neither",
)
SUMMARY_AGREES = _exact(
    "summary_agrees",
    "1 where memory_summary is the block map",
    "point",
    unit="share",
    better="more",
)
_RUN = ("workload", "capacity_ratio")


def _seen(name: str, help: str, unit: str | None = None) -> Metric:
    return _sampled(name, help, *_RUN, unit=unit, better="neither")


CAPACITY_BYTES = _seen("capacity_bytes", "what the ballast left to the process")
COMPLETED = _sampled("completed", "1 where it completed", *_RUN, unit="share", better="more")
FAILED_EVENT = _seen("failed_event", "the event that failed")
FAILED_REQUEST_BYTES = _seen("failed_request_bytes", "what it requested")
FAILED_CACHED_BYTES = _seen("failed_cached_bytes", "reserved less allocated as it failed")
FAILED_LARGEST_FREE_BYTES = _seen("failed_largest_free_bytes", "of it the largest block")
FAILED_DEVICE_FREE_BYTES = _seen("failed_device_free_bytes", "what was free outside the allocator")
RETRIES = _seen("retries", "allocations tried again after releasing the cache")
RETRIES_BEFORE = _seen("retries_before", "of these, seen early enough to act on")
CACHE_SHARE_MAX = _seen("cache_share_max", "largest 1 - allocated / reserved", "ratio")
CACHE_SHARE_MAX_BEFORE = _seen("cache_share_max_before", "the same, seen early enough", "ratio")
RESERVED_CACHE_SHARE_MAX_BEFORE = _seen(
    "reserved_cache_share_max_before",
    "the largest seen early enough with a quarter of the capacity reserved",
    "ratio",
)
CACHE_SHARE_LAST_BEFORE = _seen("cache_share_last_before", "its last reading early enough", "ratio")
INACTIVE_SPLIT_BYTES_MAX_BEFORE = _seen(
    "inactive_split_bytes_max_before", "most inactive split bytes seen early enough"
)
SPLIT_SHARE_OF_CACHE = _seen(
    "split_share_of_cache",
    "inactive split over cache, median of readings with a cache share above 30 % and a quarter of "
    "the capacity reserved",
    "ratio",
)
RESERVED_SHARE_LAST_BEFORE = _seen(
    "reserved_share_last_before", "reserved over capacity, last reading early enough", "ratio"
)
UNRETURNABLE_SHARE_MAX_BEFORE = _seen(
    "unreturnable_share_max_before",
    "live and inactive split over capacity, most early enough",
    "ratio",
)
FIRST_RETRY_EVENT = _seen("first_retry_event", "first event looked at that showed a retry")
FIRST_ABOVE_EVENT = _sampled(
    "first_above_event",
    "first event that showed a larger share",
    *_RUN,
    "sign",
    "above",
    better="neither",
)
ON_THE_WAY = tuple(own for own in declared_in(globals()) if own.axes == _RUN)
"""Of each run of a workload in a capacity, in the order of the table."""
SEEN_BEFORE = tuple(own for own in ON_THE_WAY if own.name.endswith("_before"))
"""Those that a run has only where something was read early enough."""
