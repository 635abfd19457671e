"""How a run ends early: by Ctrl-C or SIGTERM, and what is said then."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from allocmark.system.errors import EXIT_UNCLEAR, AllocmarkError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOPPED = "stopped: every finished document is saved, the same command goes on from there"


class RunStoppedError(AllocmarkError):
    """The run ended early: what was finished is saved, the rest is not measured."""

    exit_code = EXIT_UNCLEAR


@contextmanager
def stoppable() -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into `KeyboardInterrupt`, and that into `RunStoppedError`.

    After the first one the others are ignored to the end of the process, which says what is saved.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # As nohup has it.
                before[number] = signal.signal(number, _interrupt)
    try:
        yield
    except KeyboardInterrupt as error:
        raise RunStoppedError(_STOPPED) from error
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is _interrupt:
                signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for other in _SIGNALS:
        if signal.getsignal(other) is _interrupt:
            signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt
