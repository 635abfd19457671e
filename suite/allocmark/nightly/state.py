"""Where a night stands, so that one that crashed is carried on and no night replaces another.

``<record>/<lane>/<night>/`` holds a results folder of its own and ``night.json``. A night's name
ends in random digits, so nights of many machines can be merged, by git too, without a conflict.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from allocmark.schema.documents import write_whole
from allocmark.system.errors import AllocmarkError

FILE = "night.json"
ACCEPTED = "accepted"
"""A file of this name in a night says that what is worse is wanted: it counts as good."""
GOOD = ("first", "fine", "unclear")
_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Night:
    """One night. `done` are the steps that came to their end; `outcome` is the gate's, or first.

    `host` is a digest that tells this machine's nights from those merged into the record.
    """

    folder: Path
    lane: str
    profile: str
    started: str
    host: str
    done: Sequence[str] = field(default_factory=tuple)
    outcome: str | None = None
    finished: bool = False

    @property
    def results(self) -> Path:
        """Its results folder."""
        return self.folder / "results"

    @property
    def is_good(self) -> bool:
        """Whether later nights may be held against it."""
        return self.outcome in GOOD or (self.folder / ACCEPTED).exists()

    def with_step(self, step: str, outcome: str | None = None) -> Night:
        """Return the night with a step done, after writing it down."""
        return replace(self, done=(*self.done, step), outcome=outcome or self.outcome).written()

    def ended(self) -> Night:
        """Return the night at its end, after writing it down."""
        return replace(self, finished=True).written()

    def written(self) -> Night:
        """Write it down, whole or not at all, and return it."""
        data = {name: value for name, value in asdict(self).items() if name != "folder"}
        text = json.dumps(data, indent=1, sort_keys=True) + "\n"
        write_whole(self.folder / FILE, text.encode())
        return self


def nights_of(record: Path, lane: str) -> list[Night]:
    """Return the nights of a lane, oldest first; a damaged ``night.json`` is no night."""
    found = []
    for path in sorted((record / lane).glob(f"*/{FILE}")):
        try:
            found.append(Night(folder=path.parent, **json.loads(path.read_bytes())))
        except (OSError, ValueError, TypeError):
            continue
    return sorted(found, key=lambda night: (night.started, night.folder.name))


def begin(record: Path, lane: str, profile: str, host: str) -> Night:
    """Carry on this host's night that was cut off, or begin one.

    Raises `AllocmarkError` for a lane whose name is no plain word.
    """
    if not _NAME.fullmatch(lane):
        raise AllocmarkError(f"{lane!r} is no name of a lane: small letters, digits, dashes")
    cut_off = [
        night
        for night in nights_of(record, lane)
        if night.host == host and night.profile == profile and not night.finished
    ]
    if cut_off:
        return cut_off[-1]
    started = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    stamp = started.replace("-", "").replace(":", "")
    folder = record / lane / f"{stamp}-{secrets.token_hex(4)}"
    return Night(folder, lane, profile, started, host).written()
