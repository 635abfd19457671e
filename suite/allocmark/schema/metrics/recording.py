"""A recorded job replayed under one setting; also the vector of `fragmentation`."""

from __future__ import annotations

from allocmark.schema.metric import Metric

EXPERIMENT = "replay_recording"

SMALLEST_CAPACITY_BYTES = Metric(
    "smallest_capacity_bytes",
    "bytes",
    "sampled",
    (),
    "the least memory, context apart, in which it completes, releasing its cache where it must",
)
RESOLUTION_BYTES = Metric("resolution_bytes", "bytes", "sampled", (), "step of that search")
PEAK_SEGMENTS = Metric(
    "peak_segments", "segments", "sampled", (), "most segments at once, without a limit"
)
CAPACITY_BYTES = Metric(
    "capacity_bytes", "bytes", "sampled", (), "the capacity of the run that the rest is about"
)
COMPLETES = Metric("completes", "bool", "sampled", (), "1 where it completes in it", better="more")
CAPACITY_PEAK_RESERVED_BYTES = Metric(
    "capacity_peak_reserved_bytes", "bytes", "sampled", (), "most reserved bytes"
)
CAPACITY_PEAK_SEGMENTS = Metric(
    "capacity_peak_segments", "segments", "sampled", (), "most segments at once"
)
CAPACITY_RETRIES = Metric("capacity_retries", "retries", "sampled", (), "retries")
CAPACITY_DRIVER_ALLOCS = Metric(
    "capacity_driver_allocs", "calls", "sampled", (), "requests for memory to the driver"
)
CAPACITY_DRIVER_FREES = Metric(
    "capacity_driver_frees", "calls", "sampled", (), "releases to the driver"
)
FAILED_EVENT = Metric("failed_event", "event", "sampled", (), "the event that failed, if one did")
