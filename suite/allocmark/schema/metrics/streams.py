"""What streams cost an allocator that knows them: bytes by pool, time by handoff, threads."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "streams"
_exact = partial(metric, EXPERIMENT, "exact")
_time = partial(metric, EXPERIMENT, "time")

USES = PRIVATE, HANDOFF, ONE_SHOT = ("private", "handoff", "one-shot")
"""Values of ``use``: each block on its own stream; handed to the next one with ``record_stream``;
each task on a stream made for it."""
POOLS = MEMPOOL, GRAPH = ("mempool", "graph")
"""Values of ``pool``: torch.cuda.MemPool, a captured CUDA graph."""
STAGES = LIVE, DROPPED, EMPTIED, RELEASED = ("live", "dropped", "emptied", "released")
"""Values of ``stage``: with blocks, tensors deleted, ``empty_cache``, the pool deleted as well."""
THREAD_STREAMS = OWN, SHARED = ("own", "shared")
"""Values of ``stream``: one for each thread, or one for all."""

_TASK = ("use", "streams", "bytes")
RESERVED_BYTES = _exact(
    "reserved_bytes", "reserved when all is freed, before any synchronization", *_TASK
)
PEAK_RESERVED_BYTES = _exact("peak_reserved_bytes", "the most reserved on the way", *_TASK)
PAIR_NS = _time("pair_ns", "alloc and free of a task, `record_stream` between in a handoff", *_TASK)
HELD_BYTES = _exact("held_bytes", "reserved bytes beyond those before", "pool", "stage")
_THREADS = ("threads", "stream")
THROUGHPUT_PER_S = _time(
    "throughput_per_s", "all threads together", *_THREADS, unit="pairs/s", better="more"
)
THREAD_PAIR_NS = _time("thread_pair_ns", "time over the pairs of one thread", *_THREADS)
SPEEDUP = _time(
    "speedup", "over one thread in the same turn", *_THREADS, unit="ratio", better="more"
)
