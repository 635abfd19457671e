"""The child's side of the pipe: each reading is sent as it is made, so a crash loses none."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from allocmark.machine.emulated import refusal
from allocmark.schema import notes
from allocmark.schema.figure import Axis, Figure, Series
from allocmark.schema.metric import Metric
from allocmark.system.printable import visible
from allocmark.system.units import format_bytes

Cell = tuple[Mapping[str, Axis], Sequence[Metric]]
"""Axes, and the metrics that have a figure there."""
CLOCK = "perf_counter"
"""The meter of times that a child reads itself, by Python's clock."""
_NO_MEMORY = ("out of memory", "bad_alloc", "cannot allocate", "out_of_memory")
_ADVICE = " If reserved but unallocated memory is large"
"""From here on torch's message at an OOM recommends a setting, and a page about it."""


def in_words(error: Exception) -> str:
    """Return an error as a reason: its sentence, or a framework's class and first line.

    What follows in a framework's message is advice. Where the emulated driver refused something,
    that is the cause behind what the framework says.
    """
    first, *_ = str(error).splitlines() or [""]
    text, *_ = first.partition(_ADVICE)
    if type(error).__module__.partition(".")[0] != "allocmark":
        text = f"{type(error).__name__}: {text}"
    text = visible(text)
    cause = refusal(text) or _host_memory(error, text)
    return f"{text}: {cause}" if cause and cause not in text else text


def _host_memory(error: Exception, text: str) -> str | None:
    """Return that the host's memory is limited, where a lack of memory may come from that.

    The driver keeps its books in the host's addresses: without any it says that it is out of
    memory, however much of the device is free.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    if not (isinstance(error, MemoryError) or any(word in text.lower() for word in _NO_MEMORY)):
        return None
    return (
        f"this process may have {format_bytes(limit)} of the host's addresses (ulimit -v), which "
        "may be what is short"
    )


class Recorder:
    """Writes one JSON line for each reading to the pipe that the parent reads."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def figure(self, figure: Figure) -> None:
        """Send one figure."""
        self._send("figure", figure.to_json())

    def reading(
        self, metric: Metric, meter: str, axes: Mapping[str, Axis], read: float | str
    ) -> None:
        """Send what a meter shows, or the reason why it shows nothing."""
        if isinstance(read, str):
            self.figure(metric.missing(read, axes, meter))
        else:
            self.figure(metric.figure(meter, axes, read))

    def unfilled(self, cells: Iterable[Cell], reason: str) -> None:
        """Send why some cells are empty."""
        for axes, metrics in cells:
            for metric in metrics:
                self.figure(metric.missing(reason, axes))

    def series(self, name: str, axes: Mapping[str, Axis], **columns: Sequence[float]) -> None:
        """Send one curve."""
        self._send("series", Series(name, axes, columns).to_json())

    def error(self, when: str, text: str) -> None:
        """Send what a user reads: an error's class and the first line of its text."""
        self.note(f"{notes.ERROR}{when}", text)

    def note(self, name: str, value: Axis) -> None:
        """Send a named value that is no figure."""
        self._send("note", {"name": name, "value": value})

    def failure(self, stage: str, reason: str) -> None:
        """Send that a stage could not be finished."""
        self._send("failure", {"stage": stage, "reason": reason})

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name what is being done, so that a crash can say where; go on after what can't be had.

        Any exception inside becomes a failure of this stage alone, and the next stage runs. How
        long it took is sent, so that a document says where the time of a run goes.
        """
        self._send("stage", {"name": name})
        begin = time.monotonic()
        try:
            yield
        except Exception as error:
            self.failure(name, in_words(error))
        finally:
            self._send("spent", {"name": name, "seconds": time.monotonic() - begin})

    def done(self) -> None:
        """Send that everything was reported: the parent takes a missing one for a crash."""
        self._send("done", {})

    def _send(self, kind: str, data: Mapping[str, object]) -> None:
        self._stream.write(json.dumps({"kind": kind, "data": data}, allow_nan=False) + "\n")
        self._stream.flush()
