"""What a run shows: a live view on a terminal, elsewhere a line for each experiment.

Time left is learned from what the documents of earlier runs took, and from how this run compares.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from allocmark.system.printable import visible
from allocmark.system.units import format_count

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

_MOST_NAMED = 3
_MINUTE_S = 60
_ENOUGH_S = 5.0
"""Seconds of earlier runs after which this run's own speed is known."""


def named(names: Sequence[str]) -> str:
    """Return a few names, and how many more there are."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:2])} and {len(names) - 2} more"


@dataclass(frozen=True, slots=True)
class Planned:
    """A document that is to be measured; `seconds` it took in an earlier run, None: unknown."""

    experiment: str
    subject: str
    seconds: float | None = None


@dataclass(slots=True)
class _Row:
    """One experiment under one stack: its documents, and what has ended of them."""

    title: str
    documents: list[Planned]
    ended: int = 0
    figures: int = 0
    taken_over: int = 0
    seconds: float = 0.0
    incomplete: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    def line(self, number: int, count: int, width: int) -> str:
        """Return how the experiment came out, in one line."""
        subjects = format_count(len(self.documents), "subject")
        figures = format_count(self.figures, "figure")
        parts = [f"{figures} of {subjects}, {self.seconds:.0f} s"]
        if self.taken_over:
            parts.append(f"{self.taken_over} taken over from the run that was cut off")
        if self.empty:
            parts.append(f"not measured: {named(self.empty)}")
        if self.incomplete:
            parts.append(f"incomplete: {named(self.incomplete)}")
        return f"[{number}/{count}] {self.title:<{width}}  " + "; ".join(parts)


class Progress:
    """Lines on a stream: one for each experiment as its last document ends.

    `verbose`: one for each document too.
    """

    def __init__(self, stream: TextIO, *, verbose: bool = False) -> None:
        self._stream = stream
        self._verbose = verbose
        self._rows: list[_Row] = []
        self._expected = self._expected_done = self._spent = 0.0

    def plan(self, parts: Sequence[tuple[str, Sequence[Planned]]]) -> None:
        """Take what is measured: by stack (its name, "" where there is one), in order."""
        for stack, documents in parts:
            for experiment in dict.fromkeys(one.experiment for one in documents):
                found = [one for one in documents if one.experiment == experiment]
                title = f"{experiment} ({stack})" if stack else experiment
                self._rows.append(_Row(title, found))
        every = [one for row in self._rows for one in row.documents]
        self._expected = sum(map(self._expected_s, every))
        known = any(one.seconds is not None for one in every)
        estimate = f", about {in_time(self._expected)}" if known else ", for the first time"
        self.note(
            f"{format_count(len(every), 'document')} of "
            f"{format_count(len(self._rows), 'experiment')}{estimate}"
        )

    def note(self, text: str) -> None:
        """Say a sentence about the run."""
        with suppress(OSError):  # Nobody may be there to see it: no reason not to measure.
            print(visible(text), file=self._stream, flush=True)

    def begin(self, subject: str, processes: int) -> None:
        """Say that a document is begun, and how many processes it takes."""

    def step(self, done: int) -> None:
        """Say how many of its processes have ended."""

    def end(
        self, subject: str, figures: int, seconds: float, reason: str = "", *, kept: bool = False
    ) -> None:
        """Say how the document came out: its figures, and why some or all are missing.

        `kept`: it was measured before this run was cut off.
        """
        row = self._row
        if row is None:  # Measured without a plan.
            return
        row.ended += 1
        row.figures += figures
        row.seconds += 0.0 if kept else seconds
        row.taken_over += kept
        if not kept and (reason or not figures):
            (row.incomplete if figures else row.empty).append(subject)
        planned = next((one for one in row.documents if one.subject == subject), None)
        if planned is not None:
            self._expected_done += self._expected_s(planned)
            self._spent += 0.0 if kept else seconds
        if self._verbose:
            how = "taken over from the run that was cut off" if kept else f"{seconds:.1f} s"
            text = f"{row.title} {subject}: {format_count(figures, 'figure')}, {how}"
            self.note(f"{text}; {reason}" if reason else text)
        if row.ended == len(row.documents):
            width = max(len(one.title) for one in self._rows)
            self.note(row.line(self._rows.index(row) + 1, len(self._rows), width))

    @property
    def _row(self) -> _Row | None:
        return next((row for row in self._rows if row.ended < len(row.documents)), None)

    def _expected_s(self, document: Planned) -> float:
        every = [one.seconds for row in self._rows for one in row.documents]
        known = [seconds for seconds in every if seconds is not None]
        usual = sum(known) / len(known) if known else 1.0
        return usual if document.seconds is None else document.seconds

    def _left_s(self) -> float | None:
        """Return about how long the rest takes, None where nothing tells."""
        known = any(one.seconds is not None for row in self._rows for one in row.documents)
        enough = self._expected_done > _ENOUGH_S and self._spent > 0
        if not (known or enough):
            return None
        speed = self._spent / self._expected_done if enough else 1.0
        return max(0.0, speed * (self._expected - self._expected_done))


class _Live(Progress):
    """A bar for the whole run below the lines of what has ended: what, how far, time left."""

    def __init__(self, bar: RichProgress, *, verbose: bool) -> None:
        super().__init__(sys.stderr, verbose=verbose)
        self._bar = bar
        self._task = bar.add_task("", total=None, left="")
        self._what, self._processes, self._begun = "", 0, time.monotonic()

    def note(self, text: str) -> None:
        self._bar.console.print(visible(text), markup=False, highlight=False, soft_wrap=True)

    def begin(self, subject: str, processes: int) -> None:
        self._what, self._processes, self._begun = subject, processes, time.monotonic()
        self._show(0)

    def step(self, done: int) -> None:
        self._show(done)

    def _show(self, done: int) -> None:
        row, left = self._row, self._left_s()
        if row is None:
            return
        of_this = self._expected_s(next(one for one in row.documents if one.subject == self._what))
        share = done / self._processes if self._processes else 0.0
        number = f"[{self._rows.index(row) + 1}/{len(self._rows)}]"
        rest = None if left is None else max(0.0, left - of_this * share)
        self._bar.update(
            self._task,
            description=f"{number} {row.title} {self._what}",
            total=self._expected,
            completed=self._expected_done + of_this * share,
            left="" if rest is None else f"about {in_time(rest)} left",
        )


def in_time(seconds: float) -> str:
    """Return a duration for people."""
    return f"{seconds:.0f} s" if seconds < 2 * _MINUTE_S else f"{seconds / _MINUTE_S:.0f} min"


@contextmanager
def shown(*, verbose: bool = False) -> Iterator[Progress]:
    """Yield the progress that fits where this process runs."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        left = TextColumn("{task.fields[left]}")
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), left)
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Live(bar, verbose=verbose)
    else:
        yield Progress(sys.stderr, verbose=verbose)
