"""How asv ends where the suite refuses or is stopped: one sentence, and the suite's exit code."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from asv.console import log

from allocmark.system.errors import AllocmarkError, of_system, user_message


def ignore_interrupts() -> None:
    """Let asv come to the end that it is close to: a further Ctrl-C would show a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class StoppedBySentence(SystemExit):
    """Ends asv with one sentence and an exit code of the suite."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(code)
        ignore_interrupts()
        log.flush()
        print(f"\n{sentence}", file=sys.stderr)


@contextmanager
def one_sentence() -> Iterator[None]:
    """End asv by one sentence where an `AllocmarkError`, or one of a file or disk, comes up."""
    try:
        yield
    except AllocmarkError as error:
        raise StoppedBySentence(user_message(error), error.exit_code) from None
    except OSError as error:
        told = of_system(error)
        if told is None:
            raise
        raise StoppedBySentence(user_message(told), told.exit_code) from None
