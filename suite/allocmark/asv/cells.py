"""One small file for each cell that asv tracks, so that reading one costs a millisecond.

asv asks for every parameter combination apart; a whole document would have to be unpacked for
each. A cell is named by its subject, metric and axes and holds what asv understands.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from allocmark.schema import documents
from allocmark.schema.figure import Axis, Figure

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "seconds": 1.0}
"""asv speaks of times in seconds."""


class Samples(TypedDict):
    """What asv turns into a median with an interval; `number` is always 1."""

    samples: list[float]
    number: int


Cell = float | Samples


def write_cells(folder: Path, paths: Iterable[Path], metrics: Collection[str]) -> int:
    """Write the cells of those metrics in the documents below `folder`; return how many.

    Raises `DocumentError` for a document that cannot be read.
    """
    count = 0
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        document = documents.read(path)
        for figure in document.figures:
            if figure.metric in metrics and figure.value is not None:
                name = _name(document.subject, figure.metric, figure.axes)
                (folder / name).write_text(json.dumps(cell_of(figure)))
                count += 1
    return count


def read_cell(folder: str, subject: str, metric: str, **axes: Axis) -> Cell:
    """Return one cell: a number, samples, or NaN where nothing was measured."""
    try:
        cell: Cell = json.loads((Path(folder) / _name(subject, metric, axes)).read_bytes())
    except FileNotFoundError:
        return math.nan
    return cell


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


def _name(subject: str, metric: str, axes: Mapping[str, Axis]) -> str:
    key = json.dumps([subject, metric, sorted(axes.items())])
    return hashlib.sha256(key.encode()).hexdigest()[:32]
