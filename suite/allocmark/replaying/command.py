"""What the command line and the Python API have in common: a file in, an answer out."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from allocmark.importers import reader
from allocmark.replaying import table
from allocmark.replaying.answer import Answer
from allocmark.replaying.run import Options, replay
from allocmark.units import parse_bytes

_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked for, sizes as they wrote them."""

    file: Path
    settings: Sequence[str] = ()
    capacity: str | None = None
    outside: str | None = None
    device: int | None = None
    emulated: bool = False
    page: Path | None = None


def find(asked: Asked) -> Answer:
    """Read the recording and replay it; progress goes to standard error of a terminal."""
    options = Options(
        tuple(asked.settings),
        parse_bytes(asked.capacity) if asked.capacity else None,
        parse_bytes(asked.outside) if asked.outside else None,
        asked.emulated,
    )
    return replay(reader.read(asked.file, asked.device), options, _progress)


def answer(asked: Asked, form: str) -> str:
    """Return the answer as text: a ``table``, or ``json``; writes the page where one is asked."""
    found = find(asked)
    if form == "json":
        return json.dumps(found.to_json(), indent=1, allow_nan=False) + "\n"
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    stream = io.StringIO()
    table.show(found, Console(file=stream, width=max(width, _WIDTH), highlight=False))
    return stream.getvalue()


def _progress(name: str) -> None:
    if sys.stderr.isatty():
        print(f"replayed under {name}", file=sys.stderr)
