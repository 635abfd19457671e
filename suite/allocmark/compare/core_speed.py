"""Brings times of one machine to one core pace, however the runs were measured.

A results folder keeps the pace that its times are given at (`core pace ns` in the conditions), and
each night has a folder of its own: what two of them say is apart by what their paces are. Between
machines nothing is brought together: that their cores differ is a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from allocmark.compare.run_set import Source
from allocmark.schema import notes
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure

Paces = dict[str, float]
"""By machine: the pace to which its figures are brought."""


def stepped(figure: Figure, factor: float) -> Figure:
    """Return the figure with its value, samples and interval times `factor`."""
    interval = figure.interval
    return replace(
        figure,
        value=None if figure.value is None else figure.value * factor,
        samples=[sample * factor for sample in figure.samples],
        interval=None if interval is None else (interval[0] * factor, interval[1] * factor),
    )


def pace_of(document: Document) -> float | None:
    """Return the pace at which a document gives its times, None where it says none."""
    found = document.conditions.get(notes.NOTES)
    pace = found.get(notes.CORE_SPEED_NS) if isinstance(found, dict) else None
    if isinstance(pace, bool) or not isinstance(pace, int | float):
        return None
    return float(pace) if pace > 0 else None


def paces(sources: Iterable[Source]) -> Paces:
    """Return of each machine the pace of its first document that has one."""
    found: Paces = {}
    for source in sorted(sources, key=lambda source: source.document.started):
        pace = pace_of(source.document)
        if pace is not None:
            found.setdefault(source.machine, pace)
    return found


def at_pace(figure: Figure, pace: float | None, wanted: float | None) -> Figure:
    """Return the figure, given at `pace`, at the pace `wanted`."""
    if pace is None or wanted is None or pace == wanted or not figure.scaled_to_core_speed:
        return figure
    return stepped(figure, wanted / pace)
