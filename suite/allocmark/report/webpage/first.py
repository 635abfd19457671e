"""The first screen's line on what was measured: GPU, driver, versions, day, profile."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from allocmark.report.page import Part
from allocmark.store.panel import run_of
from allocmark.store.record_runs import Run, runs
from allocmark.system.message import Message, Text

_FIELDS: tuple[tuple[str, Text], ...] = (
    ("gpu", "GPU"),
    ("driver", Message("driver")),
    ("cuda", "CUDA"),
    ("torch", "PyTorch"),
    ("tensorflow", "TensorFlow"),
    ("python", "Python"),
)
_MONTHS = (
    Message("January"),
    Message("February"),
    Message("March"),
    Message("April"),
    Message("May"),
    Message("June"),
    Message("July"),
    Message("August"),
    Message("September"),
    Message("October"),
    Message("November"),
    Message("December"),
)


@dataclass(frozen=True, slots=True)
class RunView:
    """A line on a run: its day as each language writes it, as it stands where it is no date."""

    run: Run
    kind: Text
    date: Text


def _date(day: str) -> Text:
    try:
        parsed = datetime.date.fromisoformat(day)
    except ValueError:
        return day
    return Message(
        "{day} {month} {year}",
        day=str(parsed.day),
        month=_MONTHS[parsed.month - 1],
        year=str(parsed.year),
    )


@dataclass(frozen=True, slots=True)
class Stack:
    """What stands under the title."""

    fields: tuple[tuple[Text, str], ...]
    runs: tuple[RunView, ...]
    dates: tuple[Text, ...]
    """The days of all runs, the first one first."""


def stack_lines(part: Part) -> Stack:
    """Return the versions of a part, all that occur, and its runs."""
    sources = [part.panel.store.sources[index] for index in part.panel.shown]
    fields = []
    for name, title in _FIELDS:
        values = dict.fromkeys(str(v) for s in sources if (v := s.document.stack.get(name)))
        if values:
            fields.append((title, ", ".join(values)))
    made = tuple(RunView(run, run_of(run.profile), _date(run.day)) for run in runs(part.panel))
    days = sorted({one.run.day for one in made})
    return Stack(tuple(fields), made, tuple(map(_date, days)))
