"""The first screen's line on what was measured: GPU, driver, versions, day, profile."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from allocmark.claims.text import Text
from allocmark.report.page import Part
from allocmark.store.record_runs import Run, runs

_FIELDS = (
    ("gpu", "GPU"),
    ("driver", "driver"),
    ("cuda", "CUDA"),
    ("torch", "PyTorch"),
    ("tensorflow", "TensorFlow"),
    ("python", "Python"),
)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class RunView:
    """A line on a run: its day as each language writes it, as it stands where it is no date."""

    run: Run
    date: Text


def _date(day: str) -> Text:
    try:
        parsed = datetime.date.fromisoformat(day)
    except ValueError:
        return Text(day, day)
    return Text(
        f"{parsed.day} {_MONTHS[parsed.month - 1]} {parsed.year}",
        f"{parsed.year}年{parsed.month}月{parsed.day}日",
    )


@dataclass(frozen=True, slots=True)
class Stack:
    """What stands under the title."""

    fields: tuple[tuple[str, str], ...]
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
    made = tuple(RunView(run, _date(run.day)) for run in runs(part.panel))
    days = sorted({one.run.day for one in made})
    return Stack(tuple(fields), made, tuple(map(_date, days)))
