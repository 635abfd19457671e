"""Cells of asv are read in asv's own process: what they hold was measured by their ``setup_cache``.

asv starts, or at the least forks, a process for each cell. For a benchmark that measures that is
right; here each would only read a small file, and a fork took some 13 ms: 20 s of a run for all.
"""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from asv_runner.run import _run

_TRACKS = "track_"


def is_reading(args: Sequence[str], folder: str | None) -> bool:
    """Whether a call of asv's script, in that folder, runs a benchmark that only reads.

    One that times something, or that has no ``setup_cache``, needs the process that asv gives it.
    """
    match args:
        case [_, "run", _, name, *_] if folder is not None:
            tracks = name.rpartition(".")[2].startswith(_TRACKS)
            return tracks and Path(folder, "cache.pickle").is_file()
    return False


def read(args: Sequence[str], folder: str) -> tuple[str, str, int]:
    """Do here what the script would do; return its output, its errors and its exit code."""
    try:
        with _inside(folder):
            _run(tuple(args[2:]))
    except Exception:
        return traceback.format_exc(), "", 1
    return "", "", 0


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before, importers = Path.cwd(), list(sys.meta_path)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.meta_path[:] = importers  # asv adds one for each benchmark.
