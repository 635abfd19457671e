"""Which hole an allocator takes, and when free neighbours become one."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "placement"
_exact = partial(metric, EXPERIMENT, "exact")
_seen = partial(_exact, better="neither")

BEST_FIT = _seen("best_fit", "1 where each of two requests went into the smallest hole that fits")
MERGES_AT_FREE = _seen(
    "merges_at_free", "1 where two freed neighbours served a request of both at once"
)
SPLITS = _seen("splits", "1 where what was left of a larger hole served the next request")
HOLE_BYTES = _exact("hole_bytes", "the hole that a request of so many bytes took", "request")
