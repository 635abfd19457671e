"""What the benchmark classes read: the figures of one experiment's documents, as asv takes them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import ClassVar, TypedDict

from allocmark.schema.documents import Document
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.metric import Metric

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "seconds": 1.0}
"""asv gives times in seconds."""


class Samples(TypedDict):
    """What asv turns into a median with an interval; `number` is always 1."""

    samples: list[float]
    number: int


Cell = float | Samples
_Key = tuple[str, str, frozenset[tuple[str, Axis]]]
Cells = Mapping[_Key, Figure]


class Question:
    """A benchmark class: its ``track_*`` methods read cells of an experiment that was measured.

    `cells` are set by what writes asv's results (`allocmark.asv.tracked_run`).
    """

    experiment: ClassVar[str]
    version = "1"
    """Set by hand: raised when the meaning of the figures changes, and only then."""
    cells: Cells

    def cell(self, subject: str, metric: Metric, **axes: Axis) -> Cell:
        """Return one cell: a number, samples, or NaN where nothing was measured."""
        figure = self.cells.get(_key(subject, metric.name, axes))
        return math.nan if figure is None else cell_of(figure)


def cells_of(documents: Iterable[Document]) -> Cells:
    """Return the figures with a value by subject, metric and axes."""
    return {
        _key(document.subject, figure.metric, figure.axes): figure
        for document in documents
        for figure in document.figures
        if figure.value is not None
    }


def cell_of(figure: Figure) -> Cell:
    """Return a figure with a value as asv takes it: times in seconds, samples if they say more.

    asv reports the median of samples, so a figure that is something else of them (a percentile,
    a minimum) stays a plain number.
    """
    if figure.value is None:
        return math.nan
    scale = _SECONDS.get(figure.unit, 1.0)
    if figure.kind == "exact" or not figure.samples or figure.counts:
        return figure.value * scale
    if not math.isclose(statistics.median(figure.samples), figure.value, rel_tol=1e-9):
        return figure.value * scale
    return {"samples": [sample * scale for sample in figure.samples], "number": 1}


def _key(subject: str, metric: str, axes: Mapping[str, Axis]) -> _Key:
    return subject, metric, frozenset(axes.items())
