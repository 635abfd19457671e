"""A recorded job replayed under one setting; also the vector of `fragmentation`."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "replay_recording"
_metric = partial(Metric, EXPERIMENT)

SMALLEST_CAPACITY_BYTES = _metric(
    "smallest_capacity_bytes",
    "bytes",
    "sampled",
    (),
    "the least memory, context apart, in which it completes, releasing its cache where it must",
)
RESOLUTION_BYTES = _metric("resolution_bytes", "bytes", "sampled", (), "step of that search")
PEAK_SEGMENTS = _metric(
    "peak_segments", "segments", "sampled", (), "most segments at once, without a limit"
)
CAPACITY_BYTES = _metric(
    "capacity_bytes", "bytes", "sampled", (), "the capacity of the run that the rest is about"
)
COMPLETES = _metric("completes", "bool", "sampled", (), "1 where it completes in it", better="more")
CAPACITY_PEAK_RESERVED_BYTES = _metric(
    "capacity_peak_reserved_bytes", "bytes", "sampled", (), "most reserved bytes"
)
CAPACITY_PEAK_SEGMENTS = _metric(
    "capacity_peak_segments", "segments", "sampled", (), "most segments at once"
)
CAPACITY_RETRIES = _metric("capacity_retries", "retries", "sampled", (), "retries")
CAPACITY_DRIVER_ALLOCS = _metric(
    "capacity_driver_allocs", "calls", "sampled", (), "requests for memory to the driver"
)
CAPACITY_DRIVER_FREES = _metric(
    "capacity_driver_frees", "calls", "sampled", (), "releases to the driver"
)
FAILED_EVENT = _metric("failed_event", "event", "sampled", (), "the event that failed, if one did")
