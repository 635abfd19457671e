"""The way of a request through torch's allocator: branches, what each does and costs, the copy."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric
from allocmark.system.units import KIB, MIB

EXPERIMENT = "request_path"
_exact = partial(metric, EXPERIMENT, "exact", better="neither")
_time = partial(metric, EXPERIMENT, "time")

REQUESTS, WHOLE, CUT = "all requests", "whole cached block", "cut cached block"
NEW, NEW_CUT = "new segment", "new segment, cut"
RETRY, OOM = "cache released, retried", "out of memory"
PENDING = "frees that waited for a stream"
BRANCHES = (REQUESTS, WHOLE, CUT, NEW, NEW_CUT, RETRY, OOM, PENDING)
"""Values of ``branch`` of `BRANCH_REQUESTS`. The second to the fifth and `OOM` add up to the
first."""
COLLECTED, UNCOLLECTED = "garbage collected", "below the threshold"
NO_FRACTION, AVAILABLE = "threshold without a fraction", "large cached blocks released"
CRAFTED = (WHOLE, CUT, NEW, NO_FRACTION, RETRY, COLLECTED, UNCOLLECTED, AVAILABLE, OOM)
"""Values of ``branch`` of what crafted programs show."""
TIMED = (WHOLE, CUT, NEW, COLLECTED, AVAILABLE, RETRY, OOM)
TIMED_BYTES = 32 * MIB
"""A request of its own segment."""
SEGMENTS, RELEASES = "cudaMalloc", "cudaFree"
RETRIES, OOMS = "alloc_retries", "ooms"
COUNTERS = (SEGMENTS, RELEASES, RETRIES, OOMS)
"""Values of ``counter``."""
POOL, STREAM, EVENTS, FRACTION = "pool", "stream", "events", "memory fraction"
STEPS = (POOL, STREAM, EVENTS, FRACTION)
"""Values of ``step``: own pools up to 1 MiB and beyond, a free block of another stream is not
used, one whose event is pending is used once it is over, the fraction refuses what the device has
free."""
UNLIMITED, SHORT = "no limit", "1.1 live peaks"
MEMORIES = {UNLIMITED: None, SHORT: 1.1}
"""Values of ``memory``, with the memory fraction in live peaks of the workload."""
ROUNDED_BYTES = (1, 513, 2 * MIB + 1)
COPIED_BYTES = (64 * KIB, 2 * MIB, 32 * MIB, 256 * MIB)
HOSTS = PAGEABLE, PINNED = ("pageable", "pinned")
"""Values of ``host``: the memory that is copied from."""

BRANCH_REQUESTS = _exact(
    "branch_requests",
    "requests of the workload that took the branch",
    *("workload", "memory", "branch"),
)
TAKEN_BYTES = _exact("taken_bytes", "what a request of so many bytes is rounded to", "bytes")
STEP_SEEN = _exact("step_seen", "1 where a crafted program showed the step", "step")
CRAFTED_CALLS = _exact(
    "crafted_calls",
    "what one request of 32 MiB adds to torch's counter on that branch",
    *("branch", "counter"),
    unit="calls",
)
BRANCH_NS = _time(
    "branch_ns", "one request on that branch, until it returns or fails", "branch", "bytes"
)
COPY_NS = _time("copy_ns", "a copy to the device, until it is there", "bytes", "host")
