"""What streams cost an allocator that knows them: bytes by pool, time by handoff, threads."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "streams"
_metric = partial(Metric, EXPERIMENT)

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
RESERVED_BYTES = _metric(
    "reserved_bytes",
    "bytes",
    "exact",
    _TASK,
    "reserved when all blocks have been freed, before any synchronization",
)
PEAK_RESERVED_BYTES = _metric(
    "peak_reserved_bytes", "bytes", "exact", _TASK, "the most reserved on the way"
)
PAIR_NS = _metric(
    "pair_ns", "ns", "time", _TASK, "alloc and free of a task, `record_stream` between in a handoff"
)
HELD_BYTES = _metric(
    "held_bytes", "bytes", "exact", ("pool", "stage"), "reserved bytes beyond those before"
)
_THREADS = ("threads", "stream")
THROUGHPUT_PER_S = _metric(
    "throughput_per_s",
    "pairs/s",
    "time",
    _THREADS,
    "all threads together, from the first one's start to the last one's end",
    better="more",
)
THREAD_PAIR_NS = _metric(
    "thread_pair_ns",
    "ns",
    "time",
    _THREADS,
    "that time over the pairs of one thread: constant without contention",
)
SPEEDUP = _metric(
    "speedup",
    "ratio",
    "time",
    _THREADS,
    "throughput over that of one thread in the same turn",
    better="more",
)
