"""Memory over the events of a replay as counter tracks: a trace that Perfetto and Chrome open.

The format is the JSON of Chrome's Trace Event Format: a process for each setting (of a job for
each rank's), in it a counter of allocated, reserved and inactive split bytes by stream and pool.
One event is one microsecond, the format's unit: a replay has no other clock. Where an allocator
has no map of its blocks, its totals stand alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.schema.documents import write_whole

COUNTERS = {
    "allocated": "allocated",
    "reserved": "reserved",
    "inactive_split": "inactive split",
}
"""What is counted by stream and pool: column of the series, name of the track."""
TOTALS = {"requested": "requested", "reserved": "reserved"}


def write(path: Path, sentence: str, answers: Mapping[str, ReplayAnswer]) -> None:
    """Write the trace, whole or not at all.

    `sentence` is the answer in words, `answers` those for each rank by its name, which is "" where
    there is one recording.
    """
    drawn = [(rank, one) for rank, of in answers.items() for one in of.settings if one.curve]
    events = [
        event
        for process, (rank, one) in enumerate(drawn, 1)
        for event in _setting(process, rank, one)
    ]
    sources = [answer.recording.source for answer in answers.values()]
    about = {"answer": sentence, "sources": sources, "clock": "events"}
    # No displayTimeUnit: older versions of Perfetto took it for the unit of time stamps.
    trace = {"traceEvents": events, "otherData": about}
    write_whole(path, (json.dumps(trace, separators=(",", ":")) + "\n").encode())


def _setting(process: int, rank: str, one: SettingAnswer) -> Iterator[dict[str, Any]]:
    """Yield the events of one setting, its name and place among the others first."""
    own = f"{one.name} (recorded)" if one.setting.recorded else one.name
    name = f"{rank}: {own}" if rank else own
    yield _named(process, "process_name", name=name)
    yield _named(process, "process_sort_index", sort_index=process)
    for row in _rows(one.curve):
        yield _counter(process, row, "all", TOTALS)
    for row in _rows(one.tracks):
        pool = f"private pool {row['pool']}" if row["pool"] else "common pool"
        yield _counter(process, row, f"stream {row['stream']}, {pool}", COUNTERS)
    failed = one.figure("failed_event")
    if failed is not None:
        yield {"ph": "i", "s": "p", "pid": process, "ts": failed, "name": "request failed"}


def _rows(columns: Mapping[str, Sequence[float]]) -> Iterator[dict[str, int]]:
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, map(int, values), strict=True))


def _counter(
    process: int, row: Mapping[str, int], name: str, shown: Mapping[str, str]
) -> dict[str, Any]:
    counted = {words: row[column] for column, words in shown.items() if column in row}
    return {"ph": "C", "pid": process, "ts": row["event"], "name": name, "args": counted}


def _named(process: int, what: str, **values: Any) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "name": what, "args": values}
