"""Reads result files with all processors, and keeps of them what a comparison looks at.

A large record holds tens of millions of readings: as packed doubles they take a fifth of the
memory, and cross from one process to another in no time. Curves are not compared.
"""

from __future__ import annotations

import gc
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from allocmark import documents
from allocmark.documents import Document
from allocmark.errors import DocumentError
from allocmark.figures import Figure

_MANY = 200
"""From so many files on, all processors read."""
_CHUNK = 20
"""Files that a process reads at a time: few, so that all end together."""


def read_all(paths: Sequence[Path]) -> Iterator[Document | str]:
    """Yield what each file holds, in order, or the sentence that says why it cannot be used."""
    if len(paths) < _MANY:
        yield from map(_read, paths)
        return
    # Forking would copy threads of libraries; the parent holds no GPU.
    with ProcessPoolExecutor(mp_context=get_context("forkserver"), initializer=gc.disable) as pool:
        yield from pool.map(_read, paths, chunksize=_CHUNK)


def _read(path: Path) -> Document | str:
    try:
        document = documents.read(path)
        known: dict[str, str] = {}
        figures = [_packed(figure, known) for figure in document.figures]
    except DocumentError as error:
        return str(error)
    except (TypeError, OverflowError) as error:
        return f"{path} is damaged ({error}): delete it and measure again"
    return replace(document, figures=figures, series=())


def _packed(figure: Figure, known: dict[str, str]) -> Figure:
    """Return the figure with packed readings, and texts that were met before as the same object."""
    return Figure(
        known.setdefault(figure.metric, figure.metric),
        known.setdefault(figure.unit, figure.unit),
        known.setdefault(figure.kind, figure.kind),  # type: ignore[arg-type]
        known.setdefault(figure.meter, figure.meter),
        figure.axes,
        figure.value,
        array("d", figure.samples),
        array("q", figure.counts),
        figure.interval,
        figure.reason if figure.reason is None else known.setdefault(figure.reason, figure.reason),
        figure.flags,
    )
