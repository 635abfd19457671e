"""A command run in the user's place: signals go to it, and its exit status comes back."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence

from allocmark.errors import AllocmarkError

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end; returns its exit status, 128 + n where signal n ended it.

    Raises `AllocmarkError` where it cannot be started.
    """
    try:
        process = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise AllocmarkError(f"cannot run {command[0]}: {error.strerror}") from error
    previous = {
        number: signal.signal(number, lambda got, _frame: process.send_signal(got))
        for number in _PASSED_ON
    }
    # Ctrl-C reaches the command by itself (one terminal); this process waits for its end.
    previous[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status
