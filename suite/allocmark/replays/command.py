"""What the command line and the Python API have in common: a file in, an answer out."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from allocmark.recording.importers import reader
from allocmark.replays import page, perfetto_trace, table
from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.children import Done
from allocmark.replays.explanation import explain
from allocmark.replays.run import ReplayOptions, replay
from allocmark.replays.summary import recommended, summary
from allocmark.system.errors import EXIT_FINE, EXIT_UNCLEAR, AllocmarkError
from allocmark.system.units import parse_bytes

_WIDTH = 110
_ERASE_LINE = "\x1b[K"
"""As every terminal understands it."""


class Writer(Protocol):
    """Writes an answer, all of it where it is to be verbose."""

    def __call__(self, found: ReplayAnswer, verbose: bool = False) -> str: ...


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What a person asks for, sizes as they wrote them."""

    file: Path
    settings: Sequence[str] = ()
    capacity: str | None = None
    outside: str | None = None
    device: int | None = None
    emulated: bool = False
    page: Path | None = None
    perfetto: Path | None = None
    verbose: bool = False

    def check_places(self) -> None:
        """Raise `AllocmarkError` where a file that is wanted beside the answer has no folder."""
        for option, path in (("--page", self.page), ("--perfetto", self.perfetto)):
            if path is not None and not path.absolute().parent.is_dir():
                raise AllocmarkError(f"{path.parent} is no folder: name another {option}")


def find(request: ReplayRequest, done: Done = lambda name, ended, count: None) -> ReplayAnswer:
    """Read the recording and replay it; `done` hears of each setting that has ended."""
    return replay(reader.read(request.file, request.device), options_of(request), done)


def options_of(request: ReplayRequest) -> ReplayOptions:
    """Return what is wanted of a replay, sizes in bytes."""
    return ReplayOptions(
        tuple(request.settings),
        capacity_bytes=None if request.capacity is None else parse_bytes(request.capacity),
        outside_bytes=None if request.outside is None else parse_bytes(request.outside),
        emulated=request.emulated,
        draw_all=request.perfetto is not None,
    )


def answer(request: ReplayRequest, write: Writer, show: Callable[[str], None]) -> int:
    """Show the answer as one of `FORMATS`, write page and trace, return the exit code.

    Progress goes to standard error. A page that cannot be written costs no answer. The code is
    `EXIT_UNCLEAR` where no setting could be replayed to its end.
    """
    request.check_places()
    found = find(request, progress)
    show(write(found, request.verbose))
    if request.page is not None:
        page.write(request.page, found)
    if request.perfetto is not None:
        perfetto_trace.write(request.perfetto, summary(found), {"": found})
    replayed = any(setting.smallest_card_bytes is not None for setting in found.settings)
    return EXIT_FINE if replayed else EXIT_UNCLEAR


def _as_json(found: ReplayAnswer) -> str:
    explained = explain(found)
    plain = {
        "answer": summary(found),
        "recommended": recommended(found),
        **found.to_json(),
        "explanation": explained.to_json() if explained else None,
    }
    return json.dumps(plain, indent=1, allow_nan=False) + "\n"


def _as_table(found: ReplayAnswer, verbose: bool = False) -> str:
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    return table.text(found, max(width, _WIDTH), verbose)


def progress(name: str, ended: int, count: int) -> None:
    """Say it on standard error, a line each: a file that it goes to shows how far it is.

    On a terminal it is one line, which makes room for the answer.
    """
    text = f"replayed under {name} ({ended} of {count})"
    if sys.stderr.isatty():
        shown = text if ended < count else ""
        print(f"{_ERASE_LINE}{shown}", end="\r", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


FORMATS: Mapping[str, Writer] = {
    "table": _as_table,
    "json": lambda found, verbose=False: _as_json(found),
}
