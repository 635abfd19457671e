"""Which hole an allocator takes, and when free neighbours become one."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "placement"
_metric = partial(Metric, EXPERIMENT)

BEST_FIT = _metric(
    "best_fit",
    "count",
    "exact",
    (),
    "1 where each of two requests went into the smallest hole that fits",
)
MERGES_AT_FREE = _metric(
    "merges_at_free",
    "count",
    "exact",
    (),
    "1 where two freed neighbours served a request of both at once",
)
SPLITS = _metric(
    "splits",
    "count",
    "exact",
    (),
    "1 where what was left of a larger hole served the next request",
)
HOLE_BYTES = _metric(
    "hole_bytes", "bytes", "exact", ("request",), "the hole that a request of so many bytes took"
)
