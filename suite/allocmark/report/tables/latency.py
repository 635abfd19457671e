"""Latency: what an allocation costs by path, call, level and size, and what the clock costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from allocmark.report.grid import BYTES, METRIC, SUBJECT, Key
from allocmark.report.panel import Panel
from allocmark.report.section import make, median
from allocmark.report.table import Style, Table

TITLE = "Allocation latency, with and without the cache"

_PROBE = "latency"
_CALL = Key("call", "call")
_WAIT = Key("wait", "until", order=("host", "complete"))
_LEVEL = Key("level", "level")
_PATHS = (
    ("hit", "Hits", "A block of that size is cached. Medians of batches with their interval."),
    (
        "miss",
        "Misses",
        "Nothing is cached, so the driver is asked. Median (minimum to maximum; number of calls).",
    ),
    (
        "give-back",
        "Giving back to the driver",
        "One cached block is returned. Median (minimum to maximum; number of calls).",
    ),
    ("first", "First use", "The first call of that size in the process: one reading each."),
)
_LEVELS = (
    ("allocator", "the allocator's own entry point"),
    ("op", "the framework's operation, as a line of Python calls it"),
)
_WAITS = "Until host: until the call returns; until complete: until its stream has finished too."
_ENTRIES = {
    "allocator": " Called from a loop in C where the allocator has C entry points, else from one "
    "in Python; where operations are the only way in (torch without its cache), they stand at both "
    "levels."
}
_COSTS = ("empty_pair_ns", "clock_ns")
_CHECKS = ("cross_check_loop_ns", "cross_check_program_ns", "cross_check_ratio")


def tables(panel: Panel) -> list[Table]:
    """Return a table for each path and level, the tails of hits, and what measuring costs."""
    made = [
        make(
            panel,
            _PROBE,
            {"metric": "call_ns", "path": path, "level": level},
            down=(SUBJECT, _CALL, _WAIT),
            across=BYTES,
            name=f"{path}-{level}",
            title=f"{title}: {entry}",
            about=f"{about} {_WAITS}{_ENTRIES.get(level, '')}",
            style=median if path == "hit" else _extremes,
        )
        for path, title, about in _PATHS
        for level, entry in _LEVELS
    ]
    made += [
        make(
            panel,
            _PROBE,
            {"metric": "call_p99_ns"},
            down=(SUBJECT, _CALL, _LEVEL),
            across=BYTES,
            name="hit-p99",
            title="Hits: 99th percentile",
            about="Of calls timed one by one; the clock's cost is in it.",
        ),
        make(
            panel,
            _PROBE,
            {"metric": _COSTS},
            down=(SUBJECT, _LEVEL),
            across=Key("metric", "metric", METRIC.show, _COSTS),
            name="loop-cost",
            title="What measuring costs",
            about="A pair of functions that do nothing in the same loop, and two readings of the "
            "clock. Contained in every figure above; nothing is subtracted.",
        ),
        make(
            panel,
            _PROBE,
            {"metric": _CHECKS},
            down=(SUBJECT, BYTES),
            across=Key("metric", "metric", METRIC.show, _CHECKS),
            name="cross-check",
            title="Cross check of the timing loop",
            about="A cached pair by the loop, and by a program part that shares no code with it, "
            "in turns in one process; ratio is program over loop.",
        ),
    ]
    return [table for table in made if table is not None]


def _extremes(row: Mapping[str, Any]) -> Style:
    return "range"
