"""What an allocation costs, by the path it takes, its size, and who calls."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "latency"
_metric = partial(Metric, EXPERIMENT)

PATHS = FIRST, MISS, HIT, GIVE_BACK = ("first", "miss", "hit", "give-back")
"""Values of ``path``: the first call of that size in the process; nothing is cached and the driver
is called; a block of that size is cached; one cached block is released to the driver."""
CALLS = ALLOC, FREE, PAIR = ("alloc", "free", "pair")
LEVELS = ALLOCATOR, OP = ("allocator", "op")
"""Values of ``level``: the allocator's own entry point, or the framework's operation."""
WAITS = HOST, COMPLETE = ("host", "complete")
"""Values of ``wait``: until the call returns, or until the stream is synchronized after it."""

_CELL = ("path", "call", "level", "wait", "bytes")
CALL_NS = _metric("call_ns", "ns", "time", _CELL, "one call, or an alloc and its free")
CALL_P99_NS = _metric(
    "call_p99_ns", "ns", "time", _CELL, "99th percentile of hits timed one by one, clock included"
)
EMPTY_PAIR_NS = _metric(
    "empty_pair_ns",
    "ns",
    "time",
    ("level",),
    "a pair of functions that do nothing, in the same loop",
    better="neither",
)
CLOCK_NS = _metric(
    "clock_ns",
    "ns",
    "time",
    ("level",),
    "two readings of the clock with nothing in between",
    better="neither",
)
CROSS_CHECK_LOOP_NS = _metric(
    "cross_check_loop_ns", "ns", "time", ("bytes",), "a torch hit pair by the native loop"
)
CROSS_CHECK_PROGRAM_NS = _metric(
    "cross_check_program_ns",
    "ns",
    "time",
    ("bytes",),
    "the same by a program that shares no code with it, in turns",
)
CROSS_CHECK_RATIO = _metric(
    "cross_check_ratio", "ratio", "time", ("bytes",), "program over loop, turn by turn"
)
