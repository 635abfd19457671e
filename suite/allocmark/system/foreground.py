"""A command run in the user's place: signals go to it, and its exit status comes back."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from allocmark.system.errors import AllocmarkError

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end; returns its exit status, 128 + n where signal n ended it.

    After Ctrl-C this process ignores others to its end, which is the command's: a second one must
    not take the place of the exit status. Raises `AllocmarkError` where it cannot be started.
    """
    interrupted = threading.Event()
    # Ctrl-C reaches the command by itself (one terminal); this process waits for its end. A handler
    # is not inherited, as SIG_IGN would be, so it can be there before the command is.
    previous = {}
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # As nohup has it, for both.
        previous[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        try:
            process = subprocess.Popen(command, env=environment)
        except OSError as error:
            raise AllocmarkError(f"cannot run {command[0]}: {error.strerror}") from error
        for number in _PASSED_ON:
            previous[number] = signal.signal(number, lambda got, _frame: process.send_signal(got))
        status = process.wait()
    finally:
        if interrupted.is_set():
            previous[signal.SIGINT] = signal.SIG_IGN
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status
