"""What documents of schema 1 say otherwise than those of today: the only place that knows.

Times scaled to one core speed had that at the end of their meter. And what a run towards an OOM
had seen early enough to act on was 0, or not known to the allocator, where nothing had been read so
early: such figures become empty cells, with the reason that they have today. (Runs that completed
need none of this: every workload of the suite is longer.) The speed-up of several threads was over
the median of one thread, whose own spread stood in a figure of its own: it comes into the interval.
And only calls of torch's were held against a bare loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from allocmark.schema.figure import Figure
from allocmark.schema.metrics import latency, pressure, streams

_NO_PROGRAM = "the separate program part calls torch"
_SCALED = ", at one core pace"
_SEEN_BEFORE = frozenset(metric.name for metric in pressure.SEEN_BEFORE)
_RUN = ("workload", "capacity_ratio")


def respelled(experiment: str, figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures of a document of schema 1 as one of today has them."""
    if experiment == pressure.EXPERIMENT:
        return list(_without_unread(figures))
    if experiment == streams.EXPERIMENT:
        figures = list(_with_both_spreads(figures))
    if experiment == latency.EXPERIMENT:
        figures = [
            replace(figure, reason=latency.ONLY_TORCH)
            if _NO_PROGRAM in (figure.reason or "")
            else figure
            for figure in figures
        ]
    return [
        replace(figure, meter=_bare(figure.meter), scaled_to_core_speed=True)
        if figure.meter.endswith(_SCALED)
        else figure
        for figure in figures
    ]


def _with_both_spreads(figures: Sequence[Figure]) -> Iterable[Figure]:
    """Yield all but the speed-ups of one thread, by which the others' intervals are widened.

    Of two intervals the ratio of opposite ends is the widest that the ratio can be.
    """
    alone = {
        figure.axes.get("stream"): figure.interval
        for figure in figures
        if figure.metric == streams.SPEEDUP.name and figure.axes.get("threads") == 1
    }
    for figure in figures:
        if figure.metric != streams.SPEEDUP.name:
            yield figure
        elif figure.axes.get("threads") != 1:
            ends, base = figure.interval, alone.get(figure.axes.get("stream"))
            both = (ends[0] / base[1], ends[1] / base[0]) if ends and base else ends
            yield replace(figure, interval=both)


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
