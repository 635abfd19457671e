"""Latency: what an allocation costs by path, call, level and size, and what the clock costs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import CALL
from allocmark.report.table_spec import TableSpec, made, select
from allocmark.schema.metrics import latency as metrics
from allocmark.store.grid import BYTES, METRIC, SUBJECT, Key
from allocmark.store.panel import Panel
from allocmark.store.table import Table
from allocmark.system.message import Message, Text, sentences

TITLE = Message("Allocation latency, with and without the cache")
ORDER = 120

_WAIT = Key("wait", Message("until"), order=metrics.WAITS)
_LEVEL = Key("level")
_RANGES = Message("Median (minimum to maximum; number of calls).")
_PATHS: tuple[tuple[str, Text, Text], ...] = (
    (
        metrics.HIT,
        Message("Hits"),
        Message("A block of that size is cached. Medians of batches with their interval."),
    ),
    (
        metrics.MISS,
        Message("Misses"),
        sentences(Message("Nothing is cached, so the driver is asked."), _RANGES),
    ),
    (
        metrics.GIVE_BACK,
        Message("Giving back to the driver"),
        sentences(Message("One cached block is returned."), _RANGES),
    ),
    (
        metrics.FIRST,
        Message("First use"),
        Message("The first call of that size in the process: one reading each."),
    ),
)
_LEVELS = (
    (metrics.ALLOCATOR, Message("the allocator's own entry point")),
    (metrics.OP, Message("the framework's operation, as a line of Python calls it")),
)
_WAITS = Message(
    "Until host: until the call returns; until complete: until its stream has finished too."
)
_ENTRIES = Message(
    "Called from a loop in C where the allocator has C entry points, else from one "
    "in Python; where operations are the only way in (torch without its cache), they stand at both "
    "levels."
)
_BATCH = re.compile(r"(\d+) calls a batch")
"""Part of the meter of a time that was read over so many calls at once."""
_FEW = 2
_OTHERS = (
    TableSpec(
        [metrics.EMPTY_PAIR_NS, metrics.CLOCK_NS],
        Message("What measuring costs"),
        (SUBJECT, _LEVEL),
        METRIC,
        about=Message(
            "A pair of functions that do nothing in the same loop, and two readings of the "
            "clock. Contained in every figure above; nothing is subtracted."
        ),
        name="loop-cost",
    ),
    TableSpec(
        [metrics.CROSS_CHECK_LOOP_NS, metrics.CROSS_CHECK_PROGRAM_NS, metrics.CROSS_CHECK_RATIO],
        Message("Cross check of the timing loop"),
        (SUBJECT, BYTES),
        METRIC,
        about=Message(
            "A cached pair by the loop, and by a program part that shares no code with it, "
            "in turns in one process; ratio is program over loop."
        ),
        name="cross-check",
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return a table for each path and level, the tails of hits, and what measuring costs."""
    calls = [
        _calls(panel, path, level, Message("{path}: {entry}", path=title, entry=entry), about)
        for path, title, about in _PATHS
        for level, entry in _LEVELS
    ]
    return made(panel, (*calls, _tails(panel), *_OTHERS))


def _calls(panel: Panel, path: str, level: str, title: Text, about: Text) -> TableSpec:
    is_hit = path == metrics.HIT
    return TableSpec(
        [metrics.CALL_NS],
        title,
        (SUBJECT, CALL, _WAIT),
        BYTES,
        about=sentences(
            about,
            _WAITS,
            _ENTRIES if level == metrics.ALLOCATOR else "",
            _few(panel, Message("alloc or free alone may exceed their pair"), level)
            if is_hit
            else "",
        ),
        name=f"{path}-{level}",
        where={"path": path, "level": level},
        style="median" if is_hit else "range",
        leading=level == metrics.ALLOCATOR and path in (metrics.HIT, metrics.MISS),
    )


def _tails(panel: Panel) -> TableSpec:
    return TableSpec(
        [metrics.CALL_P99_NS],
        Message("Hits: 99th percentile"),
        (SUBJECT, CALL, _LEVEL),
        BYTES,
        about=sentences(
            Message("Of calls timed one by one; the clock's cost is in it."),
            _few(panel, Message("it may lie below the median in the tables above")),
        ),
        name="hit-p99",
    )


def _few(panel: Panel, effect: Text, *levels: str) -> Text:
    """Return from which size on a batch of hits holds few calls, and what that leads to.

    As many blocks as a batch has calls lie in memory at once, unless each is freed at once (pairs),
    so large ones are few, and what a batch costs once falls on them.
    """
    where = {"path": metrics.HIT, "call": (metrics.ALLOC, metrics.FREE)}
    rows = select(panel, [metrics.CALL_NS], where)
    rows = rows[rows["value"].notna()]
    if levels and "level" in rows:
        rows = rows[rows["level"].isin(levels)]
    calls = {meter: _BATCH.search(str(meter)) for meter in rows["meter"].unique()}
    few = [meter for meter, found in calls.items() if found and int(found[1]) <= _FEW]
    sizes = rows.loc[rows["meter"].isin(few), "bytes"] if few else rows["meter"].iloc[:0]
    if sizes.empty:
        return ""
    return Message(
        "From {size} on a batch of alloc or free holds as few as one "
        "or two calls, which bear all that a batch costs once: there {effect}.",
        size=BYTES.show(float(sizes.min())),
        effect=effect,
    )
