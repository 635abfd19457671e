"""Which run the documents of a folder belong to, and whether it came to its end.

A run fills a folder for each stack that it measures; all of them carry its id.

``results/<machine>/<stack>/<profile>/run.state`` is a small JSON file (its name does not end in
``.json`` because asv would take it for one of its own). A run that was cut off has no ``finished``:
the next one carries its id on and takes over the documents it finished.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from allocmark import __version__
from allocmark.documents import write_whole

FILE_NAME = "run.state"


@dataclass(frozen=True, slots=True)
class RunState:
    """One run: times are UTC in ISO 8601, `suite` is the version that measured."""

    id: str
    started: str
    suite: str
    finished: str | None = None


def now() -> str:
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def read(folder: Path) -> RunState | None:
    """Return the folder's last run, None where there was none or its file is damaged."""
    try:
        data = json.loads((folder / FILE_NAME).read_bytes())
        return RunState(**data)
    except (OSError, ValueError, TypeError):
        return None


def begin(folders: Sequence[Path], fresh: bool = False) -> RunState:
    """Carry on the run that was cut off in one of these folders, or start one, in all of them.

    `fresh` starts one in any case, and so does a suite of another version. Of several runs that
    were cut off the newest is carried on.
    """
    cut_off = [state for state in _of_this_suite(folders) if state.finished is None]
    state = _new() if fresh or not cut_off else max(cut_off, key=_when)
    for folder in folders:
        if read(folder) != state:
            _write(folder, state)
    return state


def join(folder: Path, others: Sequence[Path] = ()) -> RunState:
    """Return the last run, finished or not, for documents that are measured again alone.

    A folder without one joins the newest of the `others`, those of the same machine's stacks.
    """
    known = _of_this_suite([folder]) or sorted(_of_this_suite(others), key=_when)
    if not known:
        return begin([folder])
    if read(folder) != known[-1]:
        _write(folder, known[-1])
    return known[-1]


def finish(folders: Sequence[Path]) -> None:
    """Say that the last run came to its end."""
    for folder in folders:
        last = read(folder)
        if last and last.finished is None:
            _write(folder, replace(last, finished=now()))


def _of_this_suite(folders: Sequence[Path]) -> list[RunState]:
    return [state for state in map(read, folders) if state and state.suite == __version__]


def _when(state: RunState) -> str:
    return state.started


def _new() -> RunState:
    started = now()
    stamp = started.replace("-", "").replace(":", "")
    return RunState(f"{stamp}-{secrets.token_hex(2)}", started, __version__)


def _write(folder: Path, state: RunState) -> None:
    write_whole(folder / FILE_NAME, (json.dumps(asdict(state), indent=1) + "\n").encode())
