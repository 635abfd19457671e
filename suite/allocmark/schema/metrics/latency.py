"""What an allocation costs, by the path it takes, its size, and who calls."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "latency"
_time = partial(metric, EXPERIMENT, "time")

FIRST, MISS, HIT, GIVE_BACK = "first", "miss", "hit", "give-back"
"""Values of ``path``: the first call of that size in the process; nothing is cached and the driver
is called; a block of that size is cached; one cached block is released to the driver."""
CALLS = ALLOC, FREE, PAIR = ("alloc", "free", "pair")
LEVELS = ALLOCATOR, OP = ("allocator", "op")
"""Values of ``level``: the allocator's own entry point, or the framework's operation."""
WAITS = HOST, COMPLETE = ("host", "complete")
"""Values of ``wait``: until the call returns, or until the stream is synchronized after it."""

_CELL = ("path", "call", "level", "wait", "bytes")
CALL_NS = _time("call_ns", "one call, or an alloc and its free", *_CELL)
CALL_P99_NS = _time(
    "call_p99_ns", "99th percentile of hits timed one by one, clock included", *_CELL
)
EMPTY_PAIR_NS = _time(
    "empty_pair_ns", "functions that do nothing, in the same loop", "level", better="neither"
)
CLOCK_NS = _time(
    "clock_ns", "two readings of the clock with nothing in between", "level", better="neither"
)
CROSS_CHECK_LOOP_NS = _time("cross_check_loop_ns", "a torch hit pair by the native loop", "bytes")
CROSS_CHECK_PROGRAM_NS = _time(
    "cross_check_program_ns", "the same by a program of no common code, in turns", "bytes"
)
CROSS_CHECK_RATIO = _time("cross_check_ratio", "program over loop, turn by turn", "bytes")
