"""How processes end: one with its parent, and what an exit code says."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(*, parent: int | None = None) -> None:
    """Have the kernel kill this process as its parent ends, however that ends (Linux).

    `parent` is the process that started it, where that is known: if it has ended already, so does
    this one. A run that was killed must not leave anything measuring beside the one that carries
    it on.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def how_ended(code: int) -> str:
    """Return how a process ended, by its exit code: ``by SIGKILL``, ``with exit code 3``."""
    if code >= 0:
        return f"with exit code {code}"
    known = {int(each): each.name for each in signal.Signals}
    return f"by {known.get(-code, f'signal {-code}')}"
