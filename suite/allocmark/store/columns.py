"""The columnar form of a run: every figure of one folder of documents in one Parquet file.

``results/<machine>/<stack>/<profile>/figures.parquet`` lies beside the documents, holds what a
comparison of many machines reads of them and nothing else, and is made of them: whoever reads it
makes it anew where the documents are others (`_digest`), so it can be deleted at any time.
A thousand runs are read in it in the time that ten take by their documents.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import ndtri

from allocmark.schema import documents, notes
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure
from allocmark.schema.figure_id import figure_id_of
from allocmark.schema.flags import DOES_NOT_REPEAT
from allocmark.schema.intervals import CONFIDENCE
from allocmark.store import skim
from allocmark.system.errors import AllocmarkError, NoResultsError

FILE_NAME = "figures.parquet"
_SCHEMA = 1
_META = b"allocmark"
_TRAILER_BYTES = 8
"""The last of a gzip file: the checksum and the length of what is in it."""
_HOST_FACTS = (
    *("host_name", "gpu_uuid", "kernel", "cpu_model", "cpu_count", "host_memory_bytes"),
    *("power_limit_w", "persistence", "ecc", "mig", "mps", "governor", "container"),
)
_TIME_UNITS = ("s", "ns")
_NORMAL = float(ndtri(0.5 + CONFIDENCE / 2))


@dataclass(frozen=True, slots=True)
class RunColumns:
    """One run whose figures can be had in columns, see `table`.

    `facts` are those of its stack and host; `commands` measure each document again, in the order in
    which the table's column ``document`` counts them.
    """

    folder: Path
    run: str
    started: str
    emulated: bool
    facts: Mapping[str, Any]
    commands: tuple[str, ...]
    unsaved: pa.Table | None = None
    """The table where it could not be saved."""

    @property
    def profile(self) -> str:
        """The profile that was measured."""
        return self.folder.name

    def table(self) -> pa.Table:
        """Return its figures, a row for each cell.

        ``cell`` is the figure's name and, but of times, its meter; ``value`` is NaN where there is
        none and ``reason`` says why, ``core_speed_ns`` is NaN of what is not scaled to one.
        """
        return self.unsaved if self.unsaved is not None else pq.read_table(self.folder / FILE_NAME)


def folders_below(root: Path) -> list[Path]:
    """Return the folders of documents below one: each is a run."""
    return sorted({path.parent for path in root.rglob(f"*{documents.SUFFIX}")})


def read(folder: Path) -> RunColumns:
    """Return the run of a folder; its columnar form is made where there is none of its documents.

    Raises `DocumentError` for a document that cannot be read.
    """
    paths = sorted(folder.glob(f"*{documents.SUFFIX}"))
    digest = _digest(paths)
    with suppress(OSError, pa.ArrowException, ValueError, KeyError, TypeError):
        told = json.loads(pq.read_schema(folder / FILE_NAME).metadata[_META])
        if (told["schema"], told["digest"]) == (_SCHEMA, digest):
            return _run(folder, told, None)
    return _run(folder, *_made(folder, paths, digest))


def make(folder: Path) -> None:
    """Make the columnar form of a folder where it is not there; a full disk is no fault of it."""
    with suppress(OSError, AllocmarkError):
        read(folder)


def _run(folder: Path, told: Mapping[str, Any], unsaved: pa.Table | None) -> RunColumns:
    return RunColumns(
        folder=folder,
        run=told["run"],
        started=told["started"],
        emulated=told["emulated"],
        facts=told["facts"],
        commands=tuple(told["commands"]),
        unsaved=unsaved,
    )


def _digest(paths: Iterable[Path]) -> str:
    """Return what tells these documents from others, by their ends: they are not opened whole."""
    found = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            stream.seek(0, io.SEEK_END)
            stream.seek(max(0, stream.tell() - _TRAILER_BYTES))
            found.update(path.name.encode() + stream.read())
    return found.hexdigest()


def _made(
    folder: Path, paths: Iterable[Path], digest: str
) -> tuple[dict[str, Any], pa.Table | None]:
    """Return what is said of a run, and its table where that could not be saved."""
    every = [documents.read(path, skim.loads) for path in paths]
    if not every:
        raise NoResultsError(folder)
    columns = _columns(every)
    first = min(every, key=lambda document: document.started)
    told = {
        "schema": _SCHEMA,
        "digest": digest,
        "run": first.run,
        "started": first.started,
        "emulated": first.emulated,
        "facts": {**first.stack, "suite": first.suite, **_host(every)},
        "commands": [document.command for document in every],
    }
    table = pa.table(columns).replace_schema_metadata({_META: json.dumps(told)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    try:
        documents.write_whole(folder / FILE_NAME, buffer.getvalue())
    except OSError:  # Results that may only be read are read all the same.
        return told, table
    return told, None


def _host(every: Iterable[Document]) -> dict[str, Any]:
    """Return the facts of the host from the first document that has each."""
    found: dict[str, Any] = {}
    for document in every:
        before = document.conditions.get("before")
        if isinstance(before, Mapping):
            told = {name: before[name] for name in _HOST_FACTS if before.get(name) is not None}
            found = told | found
    return found


def _columns(every: Iterable[Document]) -> dict[str, Any]:
    rows: list[tuple[Any, ...]] = []
    for number, document in enumerate(every):
        speed = notes.positive_number(document.conditions, notes.CORE_SPEED_NS)
        for figure in document.figures:
            cell = _cell(document, figure)
            rows.append((number, cell, figure.unit, figure.reason, *_numbers(figure, speed)))
    rows.sort(key=lambda row: row[1])  # Runs of one kind then have the same cells in a row.
    names = ("document", "cell", "unit", "reason", "value", "fastest", "within", "core_speed_ns")
    all_names = (*names, "exact", "time")
    columns = {name: [row[place] for row in rows] for place, name in enumerate(all_names)}
    kinds = {"document": pa.int16(), **dict.fromkeys(names[4:], pa.float64())}
    kinds |= dict.fromkeys(("exact", "time"), pa.bool_())
    kinds |= dict.fromkeys(("cell", "unit", "reason"), pa.string())
    found = {name: pa.array(values, kinds[name]) for name, values in columns.items()}
    for name in ("unit", "reason"):
        found[name] = found[name].dictionary_encode()
    return found


def _cell(document: Document, figure: Figure) -> str:
    """Return the name of a cell; the meter of a time names its batch, which differs by itself."""
    name = figure_id_of(document.probe, document.subject, figure.metric, figure.axes)
    is_time = figure.unit in _TIME_UNITS or figure.kind == "time"
    return name if is_time else f"{name} ({figure.meter})"


def figure_id(cell: str) -> str:
    """Return the figure's name of a cell, without its meter."""
    return cell.rpartition(" (")[0] if cell.endswith(")") else cell


def _numbers(figure: Figure, core_speed_ns: float | None) -> tuple[Any, ...]:
    value = math.nan if figure.value is None else float(figure.value)
    samples = figure.samples
    return (
        value,
        float(np.min(samples)) if samples else value,
        _within(figure),
        core_speed_ns if figure.scaled_to_core_speed and core_speed_ns else math.nan,
        figure.kind == "exact" and DOES_NOT_REPEAT not in figure.flags,
        figure.kind == "time",
    )


def _within(figure: Figure) -> float:
    """Return the variance of the logarithm within a run, by the interval of the value."""
    if figure.interval is None or figure.interval[0] <= 0:
        return 0.0
    low, high = figure.interval
    return (math.log(high / low) / (2 * _NORMAL)) ** 2
