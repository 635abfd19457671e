"""What documents of schema 1 say otherwise than those of today: the only place that knows.

Times scaled to one core speed had that at the end of their meter. And what a run towards an OOM
had seen early enough to act on was 0, or not known to the allocator, where nothing had been read so
early: such figures become empty cells, with the reason that they have today. (Runs that completed
need none of this: every workload of the suite is longer.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from allocmark.schema.figure import Figure
from allocmark.schema.metrics import pressure

_SCALED = ", at one core pace"
_SEEN_BEFORE = frozenset(metric.name for metric in pressure.SEEN_BEFORE)
_RUN = ("workload", "capacity_ratio")


def respelled(experiment: str, figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures of a document of schema 1 as one of today has them."""
    if experiment == pressure.EXPERIMENT:
        return list(_without_unread(figures))
    return [
        replace(figure, meter=_bare(figure.meter), scaled_to_core_speed=True)
        if figure.meter.endswith(_SCALED)
        else figure
        for figure in figures
    ]


@cache
def _bare(meter: str) -> str:
    return meter.removesuffix(_SCALED)


def _without_unread(figures: Sequence[Figure]) -> Iterable[Figure]:
    ended_early = {
        _run_of(figure)
        for figure in figures
        if figure.metric == pressure.FAILED_EVENT.name
        and figure.value is not None
        and figure.value < pressure.LEAD_EVENTS
    }
    for figure in figures:
        if figure.metric in _SEEN_BEFORE and _run_of(figure) in ended_early:
            yield replace(
                figure,
                value=None,
                samples=(),
                counts=(),
                interval=None,
                flags=(),
                reason=pressure.NO_LEAD,
            )
        else:
            yield figure


def _run_of(figure: Figure) -> tuple[object, ...]:
    return tuple(figure.axes.get(axis) for axis in _RUN)
