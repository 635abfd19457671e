"""Latency: what an allocation costs by path, call, level and size, and what the clock costs."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import CALL
from allocmark.report.table_spec import TableSpec, made, select
from allocmark.schema.metrics import latency as metrics
from allocmark.store.grid import BYTES, METRIC, SUBJECT, Key, plain
from allocmark.store.number_text import format_value
from allocmark.store.panel import Panel
from allocmark.store.table import Table
from allocmark.system.message import Message, Text, sentences

TITLE = Message("Allocation latency, with and without the cache")
ORDER = 120

_WAIT = Key("wait", Message("until"), order=metrics.WAITS)
_LEVEL = Key("level")
_QUANTILES = {
    metrics.CALL_P50_NS.name: Message("median"),
    metrics.CALL_P99_NS.name: Message("99th percentile"),
}
_QUANTILE = Key(
    "metric",
    Message("of single calls"),
    lambda value: _QUANTILES.get(str(value)) or plain(value),
    tuple(metric.name for metric in metrics.SINGLE),
)
_RANGES = Message("Median (minimum to maximum; number of calls).")
_PATHS: tuple[tuple[str, Text, Text], ...] = (
    (
        metrics.HIT,
        Message("Hits in batches"),
        Message(
            "A block of that size is cached. Host: medians of batches, in which some 32 blocks are "
            "allocated in a row and then freed in a drawn order, and pairs are freed at once. "
            "Complete: single calls."
        ),
    ),
    (
        metrics.MISS,
        Message("Misses"),
        sentences(Message("Nothing is cached: the driver is called."), _RANGES),
    ),
    (
        metrics.GIVE_BACK,
        Message("Releasing to the driver"),
        sentences(Message("One cached block is released."), _RANGES),
    ),
    (
        metrics.FIRST,
        Message("First use"),
        Message("The first call of that size in the process: one reading each."),
    ),
)
_NATIVE = Message("the allocator's own entry point")
_PYTHON = Message("the allocator's own entry point, from Python")
_OPERATION = Message("the framework's operation, as a line of Python calls it")
_WAITS = Message(
    "Until host: until the call returns; until complete: until its stream has finished too."
)
_FROM_C = Message("Called from a loop in C.")
_FROM_PYTHON = Message(
    "What can be reached from Python only, called from a loop in Python: not to be compared with "
    "calls from C. Where operations are the only way in (torch without its cache), they stand at "
    "both levels."
)
_EMPTY_CALLS = Message("Of each pair {least} to {most} are what a pair of empty calls takes there.")
_WITH_BOOKS = Message(
    "Where the meter is “{meter}”, the record is older, and methods of the suite that keep books "
    "are in the times."
)
_FROM_PYTHON_METER = metrics.PYTHON_METER.split()[0]
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
        Message("Cross check of the timed calls"),
        (SUBJECT, BYTES),
        METRIC,
        about=Message(
            "A pair by the loop behind the tables above, and by a bare loop over the library's own "
            "calls that shares no code with it (“program”), in turns in one process; ratio is bare "
            "loop over loop. Below 0.9 something beside the allocator is timed, and the cell is "
            "marked. Without a cache the driver is called in each pair."
        ),
        name="cross-check",
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return a table for each path and level, the tails of hits, and what measuring costs.

    Allocators whose own entry point is called from Python stand apart from those called from C.
    """
    own = select(panel, [metrics.CALL_NS], {"level": metrics.ALLOCATOR})
    python = set(own.loc[own["meter"].astype(str).str.startswith(_FROM_PYTHON_METER), "subject"])
    native = set(own["subject"]) - python
    calls = []
    for path, title, about in _PATHS:
        for name, entry, level, subjects, how in (
            (metrics.ALLOCATOR, _NATIVE, metrics.ALLOCATOR, native, _FROM_C),
            ("python", _PYTHON, metrics.ALLOCATOR, python, _from_python(panel, python)),
            (metrics.OP, _OPERATION, metrics.OP, native | python, ""),
        ):
            calls.append(
                TableSpec(
                    [metrics.CALL_NS],
                    Message("{path}: {entry}", path=title, entry=entry),
                    (SUBJECT, CALL, _WAIT),
                    BYTES,
                    about=sentences(about, _WAITS, how, _of_hits(panel, path, level)),
                    name=f"{path}-{name}",
                    where={"path": path, "level": level, "subject": sorted(subjects)},
                    style="median" if path == metrics.HIT else "range",
                    leading=name == metrics.ALLOCATOR and path in (metrics.HIT, metrics.MISS),
                )
            )
    return made(panel, (*calls, _singles(panel), *_OTHERS))


def _from_python(panel: Panel, subjects: Collection[str]) -> Text:
    """Return how these are called, with what an empty pair takes in that loop."""
    where = {"level": metrics.ALLOCATOR, "subject": sorted(subjects)}
    empty = select(panel, [metrics.EMPTY_PAIR_NS], where)["value"].dropna()
    meters = select(panel, [metrics.CALL_NS], where)["meter"].astype(str)
    older = meters.str.startswith(metrics.OLDER_PYTHON_METER).any()
    return sentences(
        _FROM_PYTHON,
        _EMPTY_CALLS.filled(
            {
                name: format_value(float(end), "ns")
                for name, end in (("least", empty.min()), ("most", empty.max()))
            }
        )
        if len(empty)
        else "",
        _WITH_BOOKS.filled({"meter": metrics.OLDER_PYTHON_METER}) if older else "",
    )


def _singles(panel: Panel) -> TableSpec:
    older = select(panel, [metrics.CALL_P50_NS], {}).empty
    return TableSpec(
        metrics.SINGLE,
        Message("Single hits: median and 99th percentile"),
        (SUBJECT, CALL, _LEVEL, _QUANTILE),
        BYTES,
        about=sentences(
            Message(
                "Of calls timed one by one, each block freed before the next is allocated; the "
                "clock's cost is in it. Another sequence than the batches', so neither bounds the "
                "other."
            ),
            Message("This record is older: it has no median of single calls.") if older else "",
        ),
        name="hit-single",
    )


def _of_hits(panel: Panel, path: str, level: str) -> Text:
    """Return from which size on a batch of hits holds few calls, and what that leads to."""
    return _few(panel, level) if path == metrics.HIT else ""


def _few(panel: Panel, level: str) -> Text:
    """Return from which size on a batch of hits holds few calls, and what that leads to.

    As many blocks as a batch has calls lie in memory at once, unless each is freed at once (pairs),
    so large ones are few, and what a batch costs once falls on them.
    """
    where = {"path": metrics.HIT, "call": (metrics.ALLOC, metrics.FREE), "level": level}
    rows = select(panel, [metrics.CALL_NS], where)
    rows = rows[rows["value"].notna()]
    calls = {meter: _BATCH.search(str(meter)) for meter in rows["meter"].unique()}
    few = [meter for meter, found in calls.items() if found and int(found[1]) <= _FEW]
    sizes = rows.loc[rows["meter"].isin(few), "bytes"] if few else rows["meter"].iloc[:0]
    if sizes.empty:
        return ""
    return Message(
        "From {size} on a batch of alloc or free holds as few as one "
        "or two calls, which bear all that a batch costs once: there alloc or free alone may "
        "exceed their pair.",
        size=BYTES.show(float(sizes.min())),
    )
