"""Streams: memory and time by use, private pools, and threads at once."""

from __future__ import annotations

from allocmark.store.grid import BYTES, SUBJECT, Key, plain
from allocmark.store.panel import Panel
from allocmark.store.section import make
from allocmark.store.table import Table

TITLE = "Several streams, private pools, several threads"

_PROBE = "streams"
_USE = Key("use", "use", order=("private", "handoff", "one-shot"))


def _counted(noun: str) -> Key:
    def show(value: object) -> str:
        return f"{plain(value)} {noun}" + ("" if value == 1 else "s")

    return Key(f"{noun}s", f"{noun}s", show)


_STREAMS, _THREADS = _counted("stream"), _counted("thread")
_TASKS = (
    (
        "reserved_bytes",
        "Reserved by streams",
        "Held from the driver when all blocks have been freed. Private: each block stays on its "
        "stream; handoff: it is used on the next one too; one-shot: each stream is used once.",
    ),
    ("peak_reserved_bytes", "Peak reserved by streams", "The most held on the way."),
    (
        "pair_ns",
        "Time of an allocation and its free by streams",
        "With record_stream in a handoff.",
    ),
)
_SPEEDS = (
    (
        "throughput_per_s",
        "Threads at once: throughput",
        "Native threads, so without Python's lock: pairs of all threads together.",
    ),
    (
        "thread_pair_ns",
        "Threads at once: time of a pair in each thread",
        "Constant where threads do not wait for each other.",
    ),
    (
        "speedup",
        "Threads at once: speed-up over one thread",
        "Over one thread in the same turn. Where the line of one thread has an interval, the "
        "record is older: over its median, whose own spread the other intervals leave out.",
    ),
)


def tables(panel: Panel) -> list[Table]:
    """Return the tables of tasks on streams, of private pools and of threads."""
    made = [
        make(
            panel,
            _PROBE,
            {"metric": metric},
            down=(SUBJECT, _USE, BYTES),
            across=_STREAMS,
            name=metric,
            title=title,
            about=about,
        )
        for metric, title, about in _TASKS
    ]
    made.append(
        make(
            panel,
            _PROBE,
            {"metric": "held_bytes"},
            down=(SUBJECT, Key("pool", "pool")),
            across=Key("stage", "stage", order=("live", "dropped", "emptied", "released")),
            name="held-bytes",
            title="Private pools: what they hold back",
            about="Live: with blocks in use; dropped: all tensors deleted; emptied: the cache "
            "given back; released: the pool or graph deleted too.",
        )
    )
    made += [
        make(
            panel,
            _PROBE,
            {"metric": metric},
            down=(SUBJECT, Key("stream", "stream", order=("own", "shared"))),
            across=_THREADS,
            name=metric,
            title=title,
            about=about,
        )
        for metric, title, about in _SPEEDS
    ]
    return [table for table in made if table is not None]
