"""A process beside a launcher: ends what that started where it was killed, and hears its group.

The command of a launcher that is killed outright (SIGKILL) would run on, and what the launcher made
for it would stay. And of a signal that reaches a launcher alone the command would not know, while
one that reaches the whole group (Ctrl-C) must not reach the command twice.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "ALLOCMARK_LAUNCHED_BY"
"""Names every launcher above a process, between colons: by it the processes are found."""
_GOODBYE = b"."
_SO_OFTEN, _BETWEEN_SECONDS = 100, 0.02
_HEARD_WITHIN_SECONDS = 0.2


class Guard:
    """Forked off by a launcher; to be made before its command is started, in the main thread.

    `token` is the launcher's name in `VARIABLE`, `leaves` are files and folders to remove.
    """

    def __init__(self, token: str, leaves: Sequence[Path]) -> None:
        below, self._lifeline = os.pipe()
        self._heard, above = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._lifeline)
                os.set_blocking(above, False)
                signal.set_wakeup_fd(above, warn_on_full_buffer=False)
                if os.read(below, 1) != _GOODBYE:
                    _end(token)
                    _remove(leaves)
            finally:
                os._exit(0)
        os.close(below)
        os.close(above)

    def heard(self, number: int) -> bool:
        """Say whether a signal that reached the launcher has reached its group too."""
        end = time.monotonic() + _HEARD_WITHIN_SECONDS
        while self._is_told(end - time.monotonic()):
            got = os.read(self._heard, 1)
            if not got:  # It was killed.
                return False
            if got == bytes([number]):
                while self._is_told(0) and os.read(self._heard, 1):
                    pass  # The same sent twice, of which the launcher hears once.
                return True
        return False

    def _is_told(self, within_seconds: float) -> bool:
        return bool(select.select([self._heard], [], [], max(within_seconds, 0))[0])

    def dismiss(self) -> None:
        """Let it go: the command has come to its end."""
        with contextlib.suppress(OSError):  # It was killed.
            os.write(self._lifeline, _GOODBYE)
        os.waitpid(self._pid, 0)
        os.close(self._lifeline)
        os.close(self._heard)


def _end(token: str) -> None:
    """Kill every process that a launcher started, whoever its parent is by now."""
    for _ in range(_SO_OFTEN):
        found = [pid for pid in _processes() if _is_below(token, pid)]
        for pid in found:
            _kill(pid)
        if not found:
            return
        time.sleep(_BETWEEN_SECONDS)  # What they started meanwhile comes next.


def _processes() -> list[int]:
    found = {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}
    return sorted(found - {os.getpid()})


def _is_below(token: str, pid: int) -> bool:
    try:
        settings = Path("/proc", str(pid), "environ").read_bytes().split(b"\0")
    except OSError:  # Another user's, or it has ended.
        return False
    names = next((s for s in settings if s.startswith(f"{VARIABLE}=".encode())), b"")
    return token.encode() in names.partition(b"=")[2].split(b":")


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _remove(leaves: Sequence[Path]) -> None:
    for path in leaves:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
