"""The documents below ``results/`` as one tidy pandas frame: a row for each figure.

A file that cannot be used is left out and named, with the sentence that says why; the rest is used.
Samples stay in the documents: a row holds what tables need of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure, Series
from allocmark.store.frame_columns import DOCUMENT_COLUMNS, SCALED, Rows
from allocmark.store.reading import read_all
from allocmark.store.table import FLAG_SEPARATOR
from allocmark.system.errors import DocumentError, NoResultsError
from allocmark.system.garbage import no_garbage_collection

MAY_BE_NEGATIVE = ("ratio",)
"""Units in which a figure below zero is not absurd; bytes, counts and durations never are."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file, or one figure of it, that is not used, and the sentence that says why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Source:
    """One document without its figures; `path` is relative to the root and uses slashes."""

    path: str
    machine: str
    stack_name: str
    document: Document


_FOLDERS = ("MACHINE", "STACK")
"""Below the root; these words stand for those that the place of a misplaced file does not tell."""


@dataclass(frozen=True)
class Store:
    """All usable documents below `root`.

    `figures` has the columns of `FIXED_COLUMNS` and one more for each axis that occurs anywhere
    (an axis named like a fixed column is called ``axis_<name>``); ``document`` is an index into
    `sources`. Text is categorical, numbers are float64, and what a figure lacks is NaN.
    """

    root: Path
    figures: pd.DataFrame
    sources: Sequence[Source]
    left_out: Sequence[LeftOut] = ()

    def series(self, index: int) -> Sequence[Series]:
        """Return the curves of a document, read again from its file."""
        return documents.read(self.root / self.sources[index].path).series


@dataclass(frozen=True, slots=True)
class _Read:
    """A document without its figures, these as rows, and what is wrong with some of them."""

    source: Source
    rows: Rows
    left_out: Sequence[LeftOut]


@no_garbage_collection()
def load(root: Path, probes: Collection[str] | None = None, readers: int = 1) -> Store:
    """Read every document below `root`, or those of some probes only.

    Many files are read by so many processes (`readers`), see `read_all`.
    Raises `AllocmarkError` where there is no usable one; what is damaged, foreign, of a newer
    schema, misplaced or absurd is left out and named in `Store.left_out`.
    """
    left_out: list[LeftOut] = []
    sources: list[Source] = []
    lengths: list[int] = []
    rows = Rows()
    paths = [
        path
        for path in sorted(root.rglob(f"*{documents.SUFFIX}"))
        if probes is None or path.name.partition(".")[0] in probes
    ]
    digests = read_all(paths, partial(_digest, root=root), processes=readers)
    for path, found in zip(paths, digests, strict=True):
        if isinstance(found, str):
            relative = path.relative_to(root).as_posix()
            left_out.append(LeftOut(relative, found.replace(str(path), relative)))
            continue
        left_out += found.left_out
        rows.append(found.rows)
        lengths.append(found.rows.length)
        sources.append(found.source)
    if not sources:
        raise NoResultsError(root, left_out[0].reason if left_out else "")
    of_folders = {"machine": [s.machine for s in sources], "stack": [s.stack_name for s in sources]}
    of_documents = of_folders | {
        name: [getattr(source.document, name) for source in sources]
        for name in DOCUMENT_COLUMNS[len(of_folders) :]
    }
    return Store(root, rows.frame(of_documents, lengths), sources, left_out)


def _digest(path: Path, document: Document, root: Path) -> _Read:
    relative = path.relative_to(root).as_posix()
    folders = relative.split("/")[:-1]
    machine, stack = (*folders, *_FOLDERS[len(folders) :])[:2]
    belongs = documents.path_of(
        Path(), machine, stack, document.profile, document.probe, document.subject
    )
    if belongs != Path(relative):
        raise DocumentError(
            f"{path} is not where its content belongs ({belongs.as_posix()}): "
            "move it there or delete it"
        )
    bare = replace(document, figures=(), series=())
    rows = map(_row, document.figures)
    return _Read(Source(relative, machine, stack, bare), *_usable(rows, relative))


def _usable(figures: Iterable[Mapping[str, Any]], relative: str) -> tuple[Rows, list[LeftOut]]:
    """Return the rows of a document, one for each cell, and what is wrong with others."""
    left_out: list[LeftOut] = []
    cells: set[tuple[Any, ...]] = set()
    kept = []
    for row in figures:
        cell = (row["metric"], row["meter"], frozenset(row["axes"].items()))
        if cell in cells:
            sentence = f"{relative} has {row['metric']} twice for one cell: the first is used"
            left_out.append(LeftOut(relative, sentence))
            continue
        cells.add(cell)
        if row["absurd"]:
            sentence = f"{relative}: {row['metric']} of {row['absurd']} cannot be: left out"
            left_out.append(LeftOut(relative, sentence))
        kept.append(row)
    rows = Rows()
    rows.extend(kept)
    return rows, left_out


def _row(figure: Figure) -> dict[str, Any]:
    """Return the row of a figure; ``absurd`` names a value that is not taken, and why."""
    value = math.nan if figure.value is None else float(figure.value)
    low, high = figure.interval or (math.nan, math.nan)
    samples = figure.samples
    row: dict[str, Any] = {
        "metric": figure.metric,
        "unit": figure.unit,
        "kind": figure.kind,
        "meter": figure.shown_meter,
        SCALED: figure.scaled_to_core_speed,
        "axes": figure.axes,
        "value": value,
        "low": float(low),
        "high": float(high),
        "n": float(sum(figure.counts) if figure.counts else len(samples)),
        "minimum": float(min(samples)) if samples else math.nan,
        "maximum": float(max(samples)) if samples else math.nan,
        "reason": figure.reason,
        "flags": FLAG_SEPARATOR.join(figure.flags) or None,
        "absurd": None,
    }
    if figure.value is not None and (absurd := _absurd(value, row["minimum"], figure.unit)):
        row |= dict.fromkeys(("value", "low", "high", "minimum", "maximum"), math.nan)
        row |= {"absurd": absurd, "reason": f"{absurd} was read, which cannot be", "flags": None}
    return row


def _absurd(value: float, minimum: float, unit: str) -> str | None:
    """Say what cannot be about a value and its smallest sample, NaN where it has none."""
    lowest = min(value, minimum) if not math.isnan(minimum) else value
    return f"{lowest:g} {unit}" if lowest < 0 and unit not in MAY_BE_NEGATIVE else None
