"""Streams: memory and time by use, private pools, and threads at once."""

from __future__ import annotations

from allocmark.report.table_spec import TableSpec
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import streams as metrics
from allocmark.store.grid import BYTES, SUBJECT, Key, plain
from allocmark.system.message import Message, Text

TITLE = Message("Several streams, private pools, several threads")
ORDER = 140


def _streams(value: object) -> Text:
    return Message("1 stream") if value == 1 else Message("{count} streams", count=plain(value))


def _threads(value: object) -> Text:
    return Message("1 thread") if value == 1 else Message("{count} threads", count=plain(value))


def _of_tasks(metric: Metric, title: Text, about: Text, leading: bool = False) -> TableSpec:
    return TableSpec(
        [metric],
        title,
        (SUBJECT, Key("use", order=metrics.USES), BYTES),
        Key("streams", show=_streams),
        about=about,
        leading=leading,
    )


def _of_threads(metric: Metric, title: Text, about: Text, leading: bool = False) -> TableSpec:
    return TableSpec(
        [metric],
        title,
        (SUBJECT, Key("stream", order=metrics.THREAD_STREAMS)),
        Key("threads", show=_threads),
        about=about,
        leading=leading,
    )


TABLES = (
    _of_tasks(
        metrics.RESERVED_BYTES,
        Message("Reserved by streams"),
        Message(
            "Held from the driver when all blocks have been freed. Private: each block stays "
            "on its stream; handoff: it is used on the next one too; one-shot: each stream is used "
            "once."
        ),
        leading=True,
    ),
    _of_tasks(
        metrics.PEAK_RESERVED_BYTES,
        Message("Peak reserved by streams"),
        Message("The most held on the way."),
    ),
    _of_tasks(
        metrics.PAIR_NS,
        Message("Time of an allocation and its free by streams"),
        Message(
            "With record_stream in a handoff. Called from Python through methods of the suite that "
            "keep books: to compare uses and numbers of streams, not with the tables of latency."
        ),
    ),
    TableSpec(
        [metrics.HELD_BYTES],
        Message("Private pools: what they hold back"),
        (SUBJECT, Key("pool")),
        Key("stage", order=metrics.STAGES),
        about=Message(
            "Live: with blocks in use; dropped: all tensors deleted; emptied: the cache "
            "given back; released: the pool or graph deleted too."
        ),
    ),
    _of_threads(
        metrics.THROUGHPUT_PER_S,
        Message("Threads at once: throughput"),
        Message("Native threads, so without Python's lock: pairs of all threads together."),
    ),
    _of_threads(
        metrics.THREAD_PAIR_NS,
        Message("Threads at once: time of a pair in each thread"),
        Message("Constant where threads do not wait for each other."),
    ),
    _of_threads(
        metrics.SPEEDUP,
        Message("Threads at once: speed-up over one thread"),
        Message(
            "Speed-up vs a single-thread run in the same round: the spread of both is in the "
            "interval (older records: vs its median, the interval widened by its spread)."
        ),
        leading=True,
    ),
)
