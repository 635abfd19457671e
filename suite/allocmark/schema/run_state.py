"""Which run the documents of a folder belong to, and whether it came to its end.

A run fills a folder for each stack that it measures; all of them carry its id.

``results/<machine>/<stack>/<profile>/run.state`` is a small JSON file (its name does not end in
``.json`` because asv would take it for one of its own). A run that was cut off has no ``finished``:
the next one carries its id on and takes over the documents it finished.

A filtered run, which measures some documents only, joins the last run of the folder. The state has
an entry for it while it measures: where it was cut off, the same command carries it on. A run that
a whole run has begun comes to its end with a whole run only; one of filtered runs alone as the last
of them ends.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path

from allocmark import __version__
from allocmark.schema.documents import well_formed, write_whole

FILE_NAME = "run.state"
_when = attrgetter("started")


@dataclass(frozen=True, slots=True)
class RunState:
    """One run: times are UTC in ISO 8601, `suite` is the version that measured.

    `whole`: a whole run has begun it, not a filtered one. `parts` are the filtered runs without an
    end in this folder: what was asked for to when they began.
    """

    id: str
    started: str
    suite: str
    finished: str | None = None
    whole: bool = True
    parts: Mapping[str, str] = field(default_factory=dict)


def now() -> str:
    """Return the time in UTC as ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def read(folder: Path) -> RunState | None:
    """Return the folder's last run, None where there was none or its file is damaged.

    What a newer allocmark says of it besides is left out.
    """
    try:
        data = json.loads(well_formed((folder / FILE_NAME).read_bytes()))
        state = RunState(**{name: data[name] for name in RunState.__slots__ if name in data})
    except (OSError, ValueError, TypeError):
        return None
    is_whole = type(state.started) is str and type(state.whole) is bool
    return state if is_whole and isinstance(state.parts, dict) else None


def begin(folders: Sequence[Path], fresh: bool = False) -> RunState:
    """Carry on the run that was cut off in one of these folders, or start one, in all of them.

    It is a whole run from now on.

    `fresh` starts one in any case, and so does a suite of another version. Of several runs that
    were cut off the newest is carried on.
    """
    cut_off = [state for state in _of_this_suite(folders) if state.finished is None]
    state = _new() if fresh or not cut_off else _as_whole(max(cut_off, key=_when))
    for folder in folders:
        if read(folder) != state:
            _write(folder, state)
    return state


def join(folder: Path, others: Sequence[Path] = ()) -> RunState:
    """Return the last run, finished or not, for documents that are measured again alone.

    A folder without one joins the newest of the `others`, those of the same machine's stacks.
    """
    own = _of_this_suite([folder])
    if own:
        return own[-1]
    known = sorted(_of_this_suite(others), key=_when)
    state = replace(known[-1], parts={}) if known else replace(_new(), whole=False)
    _write(folder, state)
    return state


def begin_part(
    folder: Path, request: str, others: Sequence[Path] = (), fresh: bool = False
) -> tuple[RunState, bool]:
    """Join the last run with a filtered run, and say whether that carries on one cut off.

    `request` names what is measured, apart from anything else that could be; `fresh` measures
    again what the one that was cut off has finished.
    """
    state = join(folder, others)
    carried_on = request in state.parts and not fresh
    if not carried_on:
        state = replace(state, parts={**state.parts, request: now()})
        _write(folder, state)
    return state, carried_on


def finish_part(folder: Path, request: str) -> None:
    """Say that a filtered run came to its end, and with it a run that holds no others."""
    state = read(folder)
    if state is None or request not in state.parts:
        return
    parts = {name: began for name, began in state.parts.items() if name != request}
    ended = state.finished or (None if state.whole or parts else now())
    _write(folder, replace(state, parts=parts, finished=ended))


def finish(folders: Sequence[Path]) -> None:
    """Say that the last run came to its end."""
    for folder in folders:
        last = read(folder)
        if last and last.finished is None:
            _write(folder, replace(_as_whole(last), finished=now()))


def _of_this_suite(folders: Sequence[Path]) -> list[RunState]:
    return [state for state in map(read, folders) if state and state.suite == __version__]


def _as_whole(state: RunState) -> RunState:
    return replace(state, whole=True, parts={})


def _new() -> RunState:
    started = now()
    stamp = started.replace("-", "").replace(":", "")
    return RunState(f"{stamp}-{secrets.token_hex(2)}", started, __version__)


def _write(folder: Path, state: RunState) -> None:
    data = asdict(state)
    if state.whole:
        del data["whole"]
    if not state.parts:
        del data["parts"]
    write_whole(folder / FILE_NAME, (json.dumps(data, indent=1) + "\n").encode())
