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
NATIVE_METER, PYTHON_METER = "native loop", "Python loop over the library's calls"
"""How the meter begins of what was called from C, and from Python, at the level ``allocator``."""
OLDER_PYTHON_METER = "Python loop over raw calls"
"""What older records called such a loop: it went through methods of the suite that keep books."""
WAITS = HOST, COMPLETE = ("host", "complete")
"""Values of ``wait``: until the call returns, or until the stream is synchronized after it."""

_CELL = ("path", "call", "level", "wait", "bytes")
CALL_NS = _time("call_ns", "one call, or an alloc and its free", *_CELL)
CALL_P50_NS = _time("call_p50_ns", "median of hits timed one by one, clock included", *_CELL)
CALL_P99_NS = _time(
    "call_p99_ns", "99th percentile of hits timed one by one, clock included", *_CELL
)
SINGLE = (CALL_P50_NS, CALL_P99_NS)
"""By one instrument: `CALL_NS` of a hit is the mean of a batch, whose blocks are live together."""
EMPTY_PAIR_NS = _time(
    "empty_pair_ns", "functions that do nothing, in the same loop", "level", better="neither"
)
CLOCK_NS = _time(
    "clock_ns", "two readings of the clock with nothing in between", "level", better="neither"
)
CROSS_CHECK_LOOP_NS = _time("cross_check_loop_ns", "a pair by the timed loop", "bytes")
CROSS_CHECK_PROGRAM_NS = _time(
    "cross_check_program_ns", "the same by a bare loop of no common code, in turns", "bytes"
)
CROSS_CHECK_RATIO = _time("cross_check_ratio", "bare loop over timed loop, turn by turn", "bytes")
ONLY_TORCH = "an older record: only calls of torch's were held against a bare loop"
"""Why older records have no cross check of others."""
