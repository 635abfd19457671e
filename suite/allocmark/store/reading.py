"""Reads result files, one after the other or thousands with several processes."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.store import skim
from allocmark.system.errors import DocumentError

MANY = 200
"""Files from which it pays to start other processes, which takes a second or two."""
_CHUNK = 20
"""Files that a process reads at a time: few, so that all end together and little waits."""

T = TypeVar("T")
Digest = Callable[[Path, Document], T]


def read_all(
    paths: Sequence[Path], digest: Digest[T], *, skimmed: bool = False, processes: int | None = None
) -> Iterator[T | str]:
    """Yield what `digest` makes of each file, in order, or why the file cannot be used.

    `digest` is called where the file is read, and may raise `DocumentError` too. `skimmed`: without
    curves, long lists of figures as `skim.Readings`. Many files are read by so many processes (as
    many as there are processors): they import the calling program's main module again, which must
    bear that, and pickle `digest` and what it returns.
    """
    read = partial(_read, digest=digest, skimmed=skimmed)
    if len(paths) < MANY or processes == 1:
        yield from map(read, paths)
        return
    # Forking would copy threads of libraries; the parent holds no GPU.
    context = get_context("forkserver")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=gc.disable) as pool:
        yield from pool.map(read, paths, chunksize=_CHUNK)


def whole(_: Path, document: Document) -> Document:
    """Return the document: the digest of who wants all of it."""
    return document


def _read(path: Path, digest: Digest[T], skimmed: bool) -> T | str:
    try:
        loads = skim.loads if skimmed else documents.parse
        return digest(path, documents.read(path, loads))
    except DocumentError as error:
        return str(error)
