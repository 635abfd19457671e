"""How a run ends early: Ctrl-C, asv's own way to stop a process, and what is said then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from allocmark.system.errors import EXIT_UNCLEAR, AllocmarkError

STOPPED = "stopped: every finished document is saved, the same command goes on from there"


class RunStoppedError(AllocmarkError):
    """The run ended early: what was finished is saved, the rest is not measured."""

    exit_code = EXIT_UNCLEAR


@contextmanager
def stoppable(*signals: signal.Signals) -> Iterator[None]:
    """Turn Ctrl-C, and a termination such as asv's, into `RunStoppedError`, or only the `signals`.

    asv answers Ctrl-C by SIGTERM to the process that measures and kills it a second later. After
    the first one the others are ignored to the end of the process, which says what is saved.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in signals or (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # As nohup has it.
                before[number] = signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        raise RunStoppedError(STOPPED) from error
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _interrupt:
                signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt
