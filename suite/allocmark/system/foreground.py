"""A command run in the user's place: signals go to it, and its exit status comes back."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from allocmark.system.errors import AllocmarkError
from allocmark.system.guard import VARIABLE, Guard
from allocmark.system.lifetime import end_with_parent

_PASSED_ON = tuple(
    getattr(signal, f"SIG{name}") for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2")
)


def run(command: Sequence[str], environment: Mapping[str, str], leaves: Sequence[Path] = ()) -> int:
    """Run a command to its end; returns its exit status, 128 + n where signal n ended it.

    A signal to this process alone goes to the command; one to its group, as Ctrl-C, has reached the
    command by itself. Where this process is killed outright, all that the command has started is
    too, and `leaves` (files and folders made for it) are removed.
    After Ctrl-C this process ignores others to its end, which is the command's: a second one must
    not take the place of the exit status. Raises `AllocmarkError` where it cannot be started.
    """
    running: list[tuple[Guard, subprocess.Popen[bytes]]] = []
    early: list[int] = []
    this = os.getpid()
    interrupted = False

    def got(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted |= number == signal.SIGINT
        if os.getpid() != this:  # The guard, which is about to hear of them.
            return
        if not running:
            early.append(number)
            return
        guard, process = running[0]
        if not guard.heard(number):
            process.send_signal(number)

    # What is ignored, as nohup has it, stays so for both. A handler is not inherited, as SIG_IGN
    # would be, so it can be there before the command is.
    previous = {n: signal.getsignal(n) for n in _PASSED_ON}
    previous = {n: handler for n, handler in previous.items() if handler is not signal.SIG_IGN}
    for number in previous:
        signal.signal(number, got)
    token = uuid.uuid4().hex
    above = environment.get(VARIABLE)
    guard = Guard(token, leaves)
    try:
        try:
            process = subprocess.Popen(
                command,
                env={**environment, VARIABLE: f"{above}:{token}" if above else token},
                preexec_fn=end_with_parent,  # noqa: PLW1509 (no other thread is here)
            )
        except OSError as error:
            raise AllocmarkError(f"cannot run {command[0]}: {error.strerror}") from error
        running.append((guard, process))
        for number in early:
            process.send_signal(number)
        status = process.wait()
    finally:
        guard.dismiss()
        if interrupted:
            previous[signal.SIGINT] = signal.SIG_IGN
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status
