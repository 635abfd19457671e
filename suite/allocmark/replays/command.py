"""What the command line and the Python API have in common: a file in, an answer out."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from allocmark.recording.importers import reader
from allocmark.replays import page, table
from allocmark.replays.answer import Answer
from allocmark.replays.children import Done
from allocmark.replays.explained import explain
from allocmark.replays.run import Options, replay
from allocmark.system.errors import EXIT_FINE, EXIT_UNCLEAR, AllocmarkError
from allocmark.system.units import parse_bytes

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


def find(asked: Asked, done: Done = lambda name, ended, count: None) -> Answer:
    """Read the recording and replay it; `done` hears of each setting that has ended."""
    options = Options(
        tuple(asked.settings),
        parse_bytes(asked.capacity) if asked.capacity is not None else None,
        parse_bytes(asked.outside) if asked.outside is not None else None,
        asked.emulated,
    )
    return replay(reader.read(asked.file, asked.device), options, done)


def answer(asked: Asked, form: str, show: Callable[[str], None]) -> int:
    """Show the answer as text, a ``table`` or ``json``, write the page, return the exit code.

    Progress goes to standard error. A page that cannot be written costs no answer. The code is
    `EXIT_UNCLEAR` where no setting could be replayed to its end.
    """
    if asked.page is not None and not asked.page.absolute().parent.is_dir():
        raise AllocmarkError(f"{asked.page.parent} is no folder: name another --page")
    found = find(asked, _progress)
    show(_as_json(found) if form == "json" else _as_table(found))
    if asked.page is not None:
        page.write(asked.page, found)
    replayed = any(one.smallest_card_bytes is not None for one in found.settings)
    return EXIT_FINE if replayed else EXIT_UNCLEAR


def _as_json(found: Answer) -> str:
    explained = explain(found)
    plain = found.to_json() | {"explanation": explained.to_json() if explained else None}
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _as_table(found: Answer) -> str:
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    stream = io.StringIO()
    table.show(found, Console(file=stream, width=max(width, _WIDTH), highlight=False))
    return stream.getvalue()


def _progress(name: str, ended: int, count: int) -> None:
    """Tell it on standard error, a line each: a file that it goes to shows how far it is."""
    print(f"replayed under {name} ({ended} of {count})", file=sys.stderr, flush=True)
