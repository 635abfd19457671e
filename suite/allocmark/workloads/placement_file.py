"""Segments and their addresses as small files: ``<name>.placement.gz``, beside the trace.

The emulated driver's choice of addresses is fitted to these and tested against them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from allocmark.schema.documents import write_whole
from allocmark.system.errors import AllocmarkError
from allocmark.workloads import columns
from allocmark.workloads.columns import Columns
from allocmark.workloads.history import Placement, SegmentOp

SUFFIX = ".placement.gz"
FORMAT = "allocmark-placement"
VERSION = 1
_COLUMNS = {"op": "u1", "event": "u4", "size": "i8", "address": "i8", "stream": "u1"}
"""The types of the columns once they are read."""


def dumps(placement: Placement) -> bytes:
    """Return the bytes of a placement's file; the same placement gives the same bytes."""
    header = {"name": placement.name, "origin": dict(placement.origin)}
    stored = {name: getattr(placement, name) for name in _COLUMNS}
    return columns.dumps(FORMAT, VERSION, Columns(header, stored))


def loads(content: bytes, what: str) -> Placement:
    """Return the placement in a file's bytes, named `what`.

    Raises `AllocmarkError` with one sentence for a file that is damaged, foreign or newer.
    """
    stored = columns.loads(content, FORMAT, VERSION, what)
    try:
        found = {name: stored.columns[name] for name in _COLUMNS}
        if len({len(column) for column in found.values()}) != 1:
            raise ValueError("its columns differ in length")
        if int(found["op"].max(initial=0)) >= len(SegmentOp):
            raise ValueError(f"it names an event {int(found['op'].max())}")
        typed: Any = {name: found[name].astype(kind) for name, kind in _COLUMNS.items()}
        return Placement(name=what, **typed, origin=dict(stored.header["origin"]))
    except (ValueError, TypeError, KeyError) as error:
        raise AllocmarkError(f"{what} is damaged ({error}): fetch or record it again") from error


def write(path: Path, placement: Placement) -> None:
    """Write a placement's file, whole or not at all."""
    write_whole(path, dumps(placement))


def read(path: Path) -> Placement:
    """Read a placement's file. Raises `AllocmarkError` where it cannot be read or used."""
    return loads(columns.read_bytes(path), path.name.removesuffix(SUFFIX))
