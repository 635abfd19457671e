"""Which run the documents of a folder belong to, and whether it came to its end.

``results/<machine>/<stack>/<profile>/run.state`` is a small JSON file (its name does not end in
``.json`` because asv would take it for one of its own). A run that was cut off has no ``finished``:
the next one carries its id on and takes over the documents it finished.
"""

from __future__ import annotations

import json
import secrets
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


def begin(folder: Path, fresh: bool = False) -> RunState:
    """Carry on the run that was cut off here, or start one.

    `fresh` starts one in any case, and so does a suite of another version.
    """
    last = read(folder)
    if last and last.finished is None and last.suite == __version__ and not fresh:
        return last
    started = now()
    stamp = started.replace("-", "").replace(":", "")
    state = RunState(f"{stamp}-{secrets.token_hex(2)}", started, __version__)
    _write(folder, state)
    return state


def join(folder: Path) -> RunState:
    """Return the last run, finished or not, for documents that are measured again alone."""
    last = read(folder)
    return last if last and last.suite == __version__ else begin(folder)


def finish(folder: Path) -> None:
    """Say that the last run came to its end."""
    last = read(folder)
    if last and last.finished is None:
        _write(folder, replace(last, finished=now()))


def _write(folder: Path, state: RunState) -> None:
    write_whole(folder / FILE_NAME, (json.dumps(asdict(state), indent=1) + "\n").encode())
