"""The record: one document for each probe and subject, written whole as the probe ends.

``results/<machine>/<stack>/<profile>/<probe>.<subject>.json.gz``. A document holds everything
that was read, the stack and conditions it was read under, and why anything is missing.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allocmark.errors import DocumentError, NewerDocumentError
from allocmark.figures import Figure, Series

SCHEMA = 1
SUFFIX = ".json.gz"
ERROR_NOTE = "error: "
"""How the name of a note begins that quotes an error; what follows says when it was raised."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a probe could not finish: where it was, and why, in words for the table."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Document:
    """All that one probe read about one subject (an allocator, mostly).

    `stack` is the identity (`allocmark.stack.Stack.to_json`), `conditions` what else held while
    measuring (clocks, other processes). `run` groups the documents of one run; `command` reruns
    this document alone. `started` is UTC in ISO 8601, `seconds` the wall time of the probe.
    """

    probe: str
    subject: str
    profile: str
    run: str
    started: str
    seconds: float
    command: str
    suite: str
    emulated: bool
    stack: Mapping[str, Any]
    conditions: Mapping[str, Any]
    figures: Sequence[Figure] = ()
    series: Sequence[Series] = ()
    failures: Sequence[Failure] = field(default_factory=tuple)
    schema: int = SCHEMA


def path_of(root: Path, machine: str, stack: str, profile: str, probe: str, subject: str) -> Path:
    """Return where the document of that probe and subject lies below `root`."""
    return root / machine / stack / profile / f"{probe}.{subject}{SUFFIX}"


def write(path: Path, document: Document) -> None:
    """Write the document whole or not at all; a reader never sees half of one."""
    data = {name: getattr(document, name) for name in Document.__slots__}
    data["figures"] = [figure.to_json() for figure in document.figures]
    data["series"] = [series.to_json() for series in document.series]
    data["failures"] = [{"stage": f.stage, "reason": f.reason} for f in document.failures]
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False)
    # mtime=0: the same readings give the same bytes.
    write_whole(path, gzip.compress(text.encode(), mtime=0))


def write_whole(path: Path, content: bytes) -> None:
    """Replace `path` in one step, so that a full disk or Ctrl-C leaves the old file.

    Raises `OSError` that names `path`, or what above it is no folder and cannot be made one.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (NotADirectoryError, FileExistsError) as error:
        above = (p for p in reversed(path.parents) if p.exists() and not p.is_dir())
        name = next(above, error.filename)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(name)) from error
    try:
        _write_whole(path, content)
    except OSError as error:
        # The temporary file's name says nothing to anybody, and a write has no name.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write_whole(path: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path, loads: Callable[[bytes], Any] = json.loads) -> Document:
    """Read one document; `loads` makes data of its text.

    Raises `DocumentError` with one sentence for a file that is damaged, not a document, or
    written by a newer allocmark.
    """
    if path.exists() and not path.is_file():  # To open a pipe would wait for a writer.
        raise DocumentError(f"{path} is not a file: move it out of the results")
    try:
        data = loads(gzip.decompress(path.read_bytes()))
        if not isinstance(data, dict) or "schema" not in data:
            raise DocumentError(f"{path} is not an allocmark document: move it out of the results")
        if data["schema"] != SCHEMA:
            raise NewerDocumentError(
                f"{path} has schema {data['schema']}, this allocmark reads {SCHEMA}: "
                "upgrade allocmark"
            )
        data["figures"] = [Figure.from_json(figure) for figure in data["figures"]]
        data["series"] = [Series.from_json(series) for series in data["series"]]
        data["failures"] = [Failure(**failure) for failure in data["failures"]]
        return Document(**data)
    except (OSError, EOFError, ValueError, TypeError, KeyError) as error:
        raise DocumentError(f"{path} is damaged ({error}): delete it and measure again") from error
