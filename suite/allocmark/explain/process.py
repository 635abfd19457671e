"""One process of this machine: that it is there, whose it is, and what it is called.

Source: proc_pid_status(5), proc_pid_cmdline(5).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from allocmark.explain.watch import place
from allocmark.system.errors import AllocmarkError

_MOST_LETTERS = 80


@dataclass(frozen=True, slots=True)
class Process:
    """A living process of this user; `command` is cut short and can be shown."""

    pid: int
    start_ticks: int
    command: str


def find(pid: int) -> Process:
    """Return a process. Raises `AllocmarkError` where there is none, or it is another user's."""
    ticks = place.start_ticks(pid) if pid > 0 else None
    if ticks is None:
        raise AllocmarkError(f"there is no process {pid}: name one that runs (--pid)")
    folder = Path("/proc", str(pid))
    try:
        # Not the owner of the folder: that is root for whoever has changed its rights.
        status = (folder / "status").read_text(encoding="utf-8", errors="replace")
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        raise AllocmarkError(f"process {pid} has just ended: name one that runs (--pid)") from None
    users = [line.split()[1:] for line in status.splitlines() if line.startswith("Uid:")]
    if not users or int(users[0][0]) != os.getuid():
        raise AllocmarkError(f"process {pid} is another user's: run explain as that user")
    return Process(pid, ticks, printable(" ".join(words).strip(), _MOST_LETTERS))


def printable(text: str, most: int) -> str:
    """Return foreign text as one line for a terminal: no control characters, cut short."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"
