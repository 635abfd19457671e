"""The first screen's line on what was measured: GPU, driver, versions, day, profile."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from allocmark.report.claims.text import Text
from allocmark.report.page import Part

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
class Run:
    """When a stack was measured and how: the day in ISO 8601, the profile."""

    stack: str
    profile: str
    day: str

    @property
    def date(self) -> Text:
        """The day as each language writes it; as it stands where it is no date."""
        try:
            day = datetime.date.fromisoformat(self.day)
        except ValueError:
            return Text(self.day, self.day)
        return Text(
            f"{day.day} {_MONTHS[day.month - 1]} {day.year}",
            f"{day.year}年{day.month}月{day.day}日",
        )


@dataclass(frozen=True, slots=True)
class Stack:
    """What stands under the title."""

    fields: tuple[tuple[str, str], ...]
    runs: tuple[Run, ...]


def stack_lines(part: Part) -> Stack:
    """Return the versions of a part, all that occur, and its runs."""
    sources = [part.panel.store.sources[index] for index in part.panel.shown]
    fields = []
    for name, title in _FIELDS:
        values = dict.fromkeys(str(v) for s in sources if (v := s.document.stack.get(name)))
        if values:
            fields.append((title, ", ".join(values)))
    runs = {Run(s.stack_name, s.document.profile, s.document.started[:10]) for s in sources}
    return Stack(tuple(fields), tuple(sorted(runs, key=lambda r: (r.stack, r.profile, r.day))))
