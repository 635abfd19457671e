"""Ties a process to the one that started it."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal as its parent ends, however that ends (Linux).

    A run that was killed must not leave anything measuring beside the one that carries it on.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
