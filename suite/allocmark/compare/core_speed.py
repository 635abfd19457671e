"""Scales times of one machine to one core speed, however the runs were measured.

A results folder keeps the core speed that its times are given at (`notes.CORE_SPEED_NS`), and each
night has a folder of its own: what two of them say is apart by what their speeds are. Between
machines nothing is scaled: that their cores differ is a result. A speed is the nanoseconds that the
reference chain takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from allocmark.compare.run_set import Source
from allocmark.schema import notes
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure

CoreSpeeds = dict[str, float]
"""By machine: the speed to which its figures are scaled."""


def stepped(figure: Figure, factor: float) -> Figure:
    """Return the figure with its value, samples and interval times `factor`."""
    interval = figure.interval
    return replace(
        figure,
        value=None if figure.value is None else figure.value * factor,
        samples=[sample * factor for sample in figure.samples],
        interval=None if interval is None else (interval[0] * factor, interval[1] * factor),
    )


def core_speed_of(document: Document) -> float | None:
    """Return the core speed at which a document gives its times, None where it says none."""
    return notes.positive_number(document.conditions, notes.CORE_SPEED_NS)


def core_speeds(sources: Iterable[Source]) -> CoreSpeeds:
    """Return of each machine the core speed of its first document that has one."""
    found: CoreSpeeds = {}
    for source in sorted(sources, key=lambda source: source.document.started):
        speed = core_speed_of(source.document)
        if speed is not None:
            found.setdefault(source.machine, speed)
    return found


def at_core_speed(figure: Figure, speed: float | None, wanted: float | None) -> Figure:
    """Return the figure, given at one core speed, at the `wanted` one."""
    if speed is None or wanted is None or speed == wanted or not figure.scaled_to_core_speed:
        return figure
    return stepped(figure, wanted / speed)
