"""The container of recorded files: a line of JSON, then columns of numbers, in one gzip stream.

The JSON line says what the file is (``format``, ``version``), carries a header of plain values,
and lists the columns as ``[name, dtype, length]``. Each column follows as little-endian numbers
with their bytes transposed (all lowest bytes first), so that the many zero bytes of small numbers
lie together and compress. gzip's own checksum finds damage; nothing in a file is executed.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocmark.system.errors import AllocmarkError

Column = NDArray[np.integer[Any]]
_DTYPES = ("u1", "u2", "u4", "u8", "i4", "i8")
_LARGEST_BYTES = 1 << 30
"""Refuse to unpack more than this: a few bytes of gzip can ask for terabytes."""


@dataclass(frozen=True)
class Columns:
    """What a file holds: its header and its columns by name."""

    header: Mapping[str, Any]
    columns: Mapping[str, Column]


def dumps(kind: str, version: int, content: Columns) -> bytes:
    """Return the file's bytes; the same content gives the same bytes."""
    described = [[n, c.dtype.str.lstrip("<|"), len(c)] for n, c in content.columns.items()]
    first = {"format": kind, "version": version, "header": content.header, "columns": described}
    line = json.dumps(first, separators=(",", ":"), sort_keys=True, allow_nan=False)
    pieces = [line.encode(), b"\n"]
    for column in content.columns.values():
        little = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<"))
        pieces.append(little.view(np.uint8).reshape(-1, little.itemsize).T.tobytes())
    return gzip.compress(b"".join(pieces), compresslevel=9, mtime=0)


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes. Raises `AllocmarkError` where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise AllocmarkError(f"{path} cannot be read ({error.strerror})") from error


def loads(content: bytes, kind: str, version: int, what: str) -> Columns:
    """Return what `dumps` wrote, of that version or an older one. `what` names it in errors.

    Raises `AllocmarkError` with one sentence for a file that is damaged, foreign or newer.
    """
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            raw = stream.read(_LARGEST_BYTES + 1)
        if len(raw) > _LARGEST_BYTES:
            raise ValueError("it unpacks to more than 1 GiB")
        end = raw.find(b"\n")
        first = json.loads(raw[:end]) if end >= 0 else None
        if not isinstance(first, dict) or first.get("format") != kind:
            raise AllocmarkError(f"{what} is not a file of the format {kind}: record it again")
        if first["version"] not in range(1, version + 1):
            raise AllocmarkError(
                f"{what} has version {_shown(first['version'])} of its format, "
                f"this allocmark reads up to {version}: upgrade it"
            )
        if not isinstance(first["header"], dict):
            raise ValueError("its header is not an object")
        return Columns(first["header"], _columns(first["columns"], memoryview(raw)[end + 1 :]))
    except RecursionError:
        raise AllocmarkError(f"{what} is damaged (it is nested too deep): fetch it again") from None
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError, OverflowError) as error:
        raise AllocmarkError(
            f"{what} is damaged ({_shown(error)}): fetch or record it again"
        ) from error


def _shown(value: object) -> str:
    """Return what a file says as a short text that a terminal only shows."""
    return "".join(c if c.isprintable() else "?" for c in str(value)[:200])


def narrow(values: Column) -> Column:
    """Return the values in the smallest unsigned type that holds them all."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def _columns(described: Any, rest: memoryview) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    at = 0
    for name, code, length in described:
        if code not in _DTYPES or not isinstance(length, int) or length < 0:
            raise ValueError(f"column {name} is described as {code} x {length}")
        dtype = np.dtype(code).newbyteorder("<")
        piece = np.frombuffer(rest, np.uint8, count=length * dtype.itemsize, offset=at)
        at += len(piece)
        together = np.ascontiguousarray(piece.reshape(dtype.itemsize, length).T)
        columns[str(name)] = together.view(dtype).reshape(length).astype(dtype.newbyteorder("="))
    if at != len(rest):
        raise ValueError("its columns and its length differ")
    return columns
