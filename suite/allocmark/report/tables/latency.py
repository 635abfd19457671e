"""Latency: what an allocation costs by path, call, level and size, and what the clock costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from allocmark.store.grid import BYTES, METRIC, SUBJECT, Key
from allocmark.store.panel import Panel
from allocmark.store.section import make, median, select
from allocmark.store.table import Style, Table

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
_BATCH = re.compile(r"(\d+) calls a batch")
"""Part of the meter of a time that was read over so many calls at once."""
_FEW = 2
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
            about=f"{about} {_WAITS}{_ENTRIES.get(level, '')}"
            + (
                _few(panel, "alloc or free alone may exceed their pair", level)
                if path == "hit"
                else ""
            ),
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
            about="Of calls timed one by one; the clock's cost is in it."
            + _few(panel, "it may lie below the median in the tables above"),
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


def _few(panel: Panel, so: str, *levels: str) -> str:
    """Return from which size on a batch of hits holds few calls, and what that leads to.

    As many blocks as a batch has calls lie in memory at once, unless each is freed at once (pairs),
    so large ones are few, and what a batch costs once falls on them.
    """
    rows = select(panel, _PROBE, {"metric": "call_ns", "path": "hit", "call": ("alloc", "free")})
    rows = rows[rows["value"].notna()]
    if levels and "level" in rows:
        rows = rows[rows["level"].isin(levels)]
    calls = {meter: _BATCH.search(str(meter)) for meter in rows["meter"].unique()}
    few = [meter for meter, found in calls.items() if found and int(found[1]) <= _FEW]
    sizes = rows.loc[rows["meter"].isin(few), "bytes"] if few else rows["meter"].iloc[:0]
    if sizes.empty:
        return ""
    return (
        f" From {BYTES.show(float(sizes.min()))} on a batch of alloc or free holds as few as one "
        f"or two calls, which bear all that a batch costs once: there {so}."
    )


def _extremes(row: Mapping[str, Any]) -> Style:
    return "range"
