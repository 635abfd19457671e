"""Shows how far a run is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID


class Progress(Protocol):
    """What a session tells while it measures."""

    def begin(self, title: str, processes: int) -> None:
        """Say that a document is begun, and how many processes it takes."""

    def step(self, done: int) -> None:
        """Say how many of its processes have ended."""

    def end(self, text: str) -> None:
        """Say how the document came out."""


class Lines:
    """One line as a document begins and one as it ends; every tenth process in between."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._title, self._processes = "", 0

    def begin(self, title: str, processes: int) -> None:
        self._title, self._processes = title, processes
        noun = "process" if processes == 1 else "processes"
        self._line(f"{title}: {processes} {noun}")

    def step(self, done: int) -> None:
        if done % 10 == 0 and done < self._processes:
            self._line(f"{self._title}: {done} of {self._processes}")

    def end(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        with suppress(OSError):  # Nobody may be there to see it: no reason not to measure.
            print(text, file=self._stream, flush=True)


class Bar:
    """A bar for the document being measured, and a line above it for each that has ended."""

    def __init__(self, bar: RichProgress) -> None:
        self._bar = bar
        self._task: TaskID | None = None

    def begin(self, title: str, processes: int) -> None:
        self._clear()
        self._task = self._bar.add_task(title, total=processes)

    def step(self, done: int) -> None:
        if self._task is not None:
            self._bar.update(self._task, completed=done)

    def end(self, text: str) -> None:
        self._clear()
        self._bar.console.print(text, markup=False, highlight=False)

    def _clear(self) -> None:
        if self._task is not None:
            self._bar.remove_task(self._task)
            self._task = None


@contextmanager
def shown() -> Iterator[Progress]:
    """Yield the progress that fits where this process runs."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield Bar(bar)
    else:
        yield Lines(sys.stderr)
