"""A search for odd machines as a page of its own: a strip of all machines for each odd figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from allocmark.fleet.model import Fleet, Kind, Machine, Odd
from allocmark.report.fleet import MOST_MACHINES, SHOWN, change
from allocmark.report.webpage.markup import html
from allocmark.system.message import Message, Recorded

_HERE = Path(__file__).parent
_WIDTH, _HEIGHT, _EDGE = 320.0, 22.0, 6.0


def render(fleet: Fleet) -> str:
    """Return the page's text: English and Chinese, without any request."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("fleet_page.html.j2").render(
        kinds=fleet.kinds,
        alone=[*fleet.alone, *fleet.left_out],
        t=lambda id: html(Message(id)),
        word=lambda verdict: html(Recorded(verdict)),
        counted=_counted,
        strip=strip,
        change=change,
        shown=SHOWN,
        most=MOST_MACHINES,
    )


def _counted(kind: Kind) -> Markup:
    """Return how many machines, runs and figures there are, and how many machines are odd."""
    sentence = Message(
        "{machines} machines, {runs} runs, {figures} figures: {odd} odd",
        machines=str(len(kind.machines)),
        runs=str(kind.runs),
        figures=str(kind.figures),
        odd=str(len(kind.named)),
    )
    return html(sentence)


def strip(odd: Odd, machine: Machine, kind: Kind) -> Markup:
    """Return the picture of a figure: a dot for each machine by its value, this one marked."""
    own = kind.machines.index(machine)
    known = [value for value in odd.strip if not math.isnan(value)]
    place = _Scale(known).place
    dots = [
        f'<circle cx="{place(value):.1f}" cy="{_HEIGHT / 2}" r="3"/>'
        for number, value in enumerate(odd.strip)
        if number != own and not math.isnan(value)
    ]
    mark = (
        f'<circle class=own cx="{place(odd.value):.1f}" cy="{_HEIGHT / 2}" r="5">'
        f"<title>{html(machine.name)}</title></circle>"
    )
    size = f'viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" width="{_WIDTH:.0f}" height="{_HEIGHT:.0f}"'
    return Markup(f"<svg {size} role=img aria-hidden=true>{''.join(dots)}{mark}</svg>")


class _Scale:
    """Places values on a strip: by their logarithms where all are above 0."""

    def __init__(self, values: Sequence[float]) -> None:
        self._is_log = min(values) > 0
        self._low, self._high = self._of(min(values)), self._of(max(values))

    def _of(self, value: float) -> float:
        return math.log(value) if self._is_log else value

    def place(self, value: float) -> float:
        """Return the distance from the left edge."""
        wide = self._high - self._low
        share = (self._of(value) - self._low) / wide if wide else 0.5
        return _EDGE + share * (_WIDTH - 2 * _EDGE)
