"""Which hole an allocator takes, and when free neighbours become one."""

from __future__ import annotations

from allocmark.schema.metric import Metric

EXPERIMENT = "placement"

BEST_FIT = Metric(
    "best_fit",
    "count",
    "exact",
    (),
    "1 where each of two requests went into the smallest hole that fits",
)
MERGES_AT_FREE = Metric(
    "merges_at_free",
    "count",
    "exact",
    (),
    "1 where two freed neighbours served a request of both at once",
)
SPLITS = Metric(
    "splits",
    "count",
    "exact",
    (),
    "1 where what was left of a larger hole served the next request",
)
HOLE_BYTES = Metric(
    "hole_bytes", "bytes", "exact", ("request",), "the hole that a request of so many bytes took"
)
