"""The record: one document for each probe and subject, written whole as the probe ends.

``results/<machine>/<stack>/<profile>/<probe>.<subject>.json.gz``. A document holds everything
that was read, the stack and conditions it was read under, and why anything is missing.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import math
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from allocmark.schema.figure import Figure, Series, check_axes
from allocmark.schema.old_spellings import respelled
from allocmark.system.errors import DocumentError, NewerDocumentError, UnreadableDocumentError
from allocmark.system.units import MIB, format_bytes

SCHEMA = 2
READABLE = (1, SCHEMA)
"""Documents of schema 1 differ in spellings, see `old_spellings`."""
SUFFIX = ".json.gz"
_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("probe", "subject", "profile", "run", "started", "command", "suite"), (str,)),
    **dict.fromkeys(("stack", "conditions"), (dict,)),
    "seconds": (int, float),
    "emulated": (bool,),
}
_FRAMEWORK = re.compile(r"[a-z_]+")
_DEEPEST = 20
"""Levels that the conditions of a document may have."""
_SURROGATES = (b"\\ud", b"\\uD", b"\xed", b"\0")
"""What JSON holds wherever there may be one: escaped, as bytes, or in another encoding."""
_TOO_DEEP = "it is nested too deep"
_LARGEST_BYTES = 64 * MIB
"""Of a document's text, thirty times the largest on record: a few bytes can unpack to gigabytes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What a probe could not finish: where it was, and why, in words for the table."""

    stage: str
    reason: str


@dataclass(frozen=True, slots=True)
class Document:
    """All that one probe read about one subject (an allocator, mostly).

    `stack` is the identity (`Stack.to_json`), `conditions` what else held while
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


def framework_of(stack: str) -> str:
    """Return the framework that a stack's folder is named after, which its name begins with."""
    framework = _FRAMEWORK.match(stack)
    return framework[0] if framework else stack


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


def well_formed(text: bytes) -> bytes:
    """Return JSON of the same data in which half of a surrogate pair alone has become U+FFFD.

    Files and processes with names that are no text bring such halves, which nothing can write or
    print. Raises as `parse` where there may be any and the text is no JSON.
    """
    if not any(mark in text for mark in _SURROGATES):
        return text
    halves = json.dumps(parse(text), separators=(",", ":"), ensure_ascii=False)
    whole = halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.encode()


def parse(text: bytes) -> Any:
    """Return the data of a document's text; raises `ValueError` also for NaN and Infinity."""
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def read(path: Path, loads: Callable[[bytes], Any] = parse) -> Document:
    """Read one document; `loads` makes data of its text.

    Raises `DocumentError` with one sentence for a file that cannot be read, is damaged, not a
    document, or written by a newer allocmark. What is returned has the types of `Document`.
    """
    content = _content(path)
    try:
        data = loads(well_formed(_unpacked(path, content)))
        if not isinstance(data, dict) or "schema" not in data:
            raise DocumentError(f"{path} is not an allocmark document: move it out of the results")
        if type(data["schema"]) is not int:
            raise ValueError("its schema is no whole number")
        if data["schema"] < min(READABLE):
            raise ValueError(f"there was never a schema {data['schema']}")
        if data["schema"] not in READABLE:
            raise NewerDocumentError(
                f"{path} has schema {data['schema']}, this allocmark reads {SCHEMA}: "
                "upgrade allocmark"
            )
        return _checked(data)
    except RecursionError as error:
        raise DocumentError(_damaged(path, _TOO_DEEP)) from error
    except (OSError, zlib.error, EOFError, ValueError, TypeError, OverflowError) as error:
        raise DocumentError(_damaged(path, error)) from error


def unpacked(content: bytes) -> bytes | None:
    """Return the text of a document's bytes, None where it is longer than that of any is."""
    with gzip.open(io.BytesIO(content)) as stream:
        text = stream.read(_LARGEST_BYTES + 1)
    return text if len(text) <= _LARGEST_BYTES else None


def _unpacked(path: Path, content: bytes) -> bytes:
    text = unpacked(content)
    if text is None:
        raise DocumentError(
            f"{path} unpacks to more than {format_bytes(_LARGEST_BYTES)}, which no document does: "
            "move it out of the results"
        )
    return text


def _damaged(path: Path, why: object) -> str:
    return f"{path} is damaged ({why}): delete it and measure again"


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():  # To open a pipe would wait for a writer.
            raise UnreadableDocumentError(f"{path} is not a file: move it out of the results")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise DocumentError(f"{path} is not there any more: measure again") from error
    except OSError as error:
        # It may well be whole: nothing is said that would cost it.
        raise UnreadableDocumentError(
            f"{path} cannot be read ({error.strerror}): make it readable, or name another folder"
        ) from error


def _checked(data: dict[str, Any]) -> Document:
    """Return the document of that data; raises `ValueError` or `TypeError` for wrong types."""
    for name in ("figures", "series", "failures"):
        if type(data.get(name)) is not list:
            raise ValueError(f"its {name} are no list")
    data["figures"] = figures = [Figure.from_json(figure) for figure in data["figures"]]
    schema, data["schema"] = data["schema"], SCHEMA
    data["series"] = [Series.from_json(series) for series in data["series"]]
    data["failures"] = [Failure(**failure) for failure in data["failures"]]
    document = Document(**data)
    for name, kind in _TYPES.items():
        if type(getattr(document, name)) not in kind:
            raise ValueError(f"its {name} cannot be {repr(getattr(document, name))[:40]}")
    if not math.isfinite(document.seconds):
        raise ValueError("its seconds are no finite number")
    if datetime.fromisoformat(document.started).tzinfo is None:
        raise ValueError(f"it started at {document.started}, which names no time zone")
    check_axes({k: v for k, v in document.stack.items() if v is not None}, "the stack")
    _check_conditions(document.conditions)
    for failure in document.failures:
        if type(failure.stage) is not str or type(failure.reason) is not str:
            raise ValueError("a failure in it is no text")
    for figure in figures:
        figure.check()
    for series in document.series:
        series.check()
    if schema == SCHEMA:
        return document
    return replace(document, figures=respelled(document.probe, figures))


def _check_conditions(conditions: Mapping[str, Any]) -> None:
    level: list[Any] = [conditions]
    for _ in range(_DEEPEST):
        inner = [v for one in level for v in (one.values() if type(one) is dict else one)]
        level = [value for value in inner if type(value) in (dict, list)]
    if level:  # Other processes take documents pickled, which fails at depths that JSON bears.
        raise ValueError(_TOO_DEEP)
