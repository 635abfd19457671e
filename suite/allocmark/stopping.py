"""How a program that is started by ``python -m`` ends when it is ended from outside.

After Ctrl-C with a sentence, as all do; where the reader of its output has gone, silently. A fault
of allocmark's own is no answer either: it never ends as what found a regression does.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from allocmark.errors import EXIT_UNCLEAR, ReaderGoneError, StoppedError
from allocmark.sentences import sentence


def stop_while_imported() -> None:
    """Let Ctrl-C end a program by a sentence while it is being imported, to `imported`."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # Not as nohup has it.
        signal.signal(signal.SIGINT, _stop)


def imported() -> None:
    """Say that what has to be imported is there: from here on Ctrl-C is `KeyboardInterrupt`."""
    if signal.getsignal(signal.SIGINT) is _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(number: int, frame: FrameType | None) -> None:
    raise SystemExit(_told())


def _told() -> int:
    print(sentence(StoppedError()), file=sys.stderr)
    return StoppedError.exit_code


def until_stopped(main: Callable[[], int]) -> int:
    """Run `main` to its end, until Ctrl-C, or until nobody reads; returns the exit code."""
    _open_streams()
    try:
        imported()
        try:
            return main()
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _told()
    except BrokenPipeError:
        # What is still buffered goes nowhere, else the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ReaderGoneError.exit_code
    except Exception:
        with suppress(OSError):
            traceback.print_exc()
        return EXIT_UNCLEAR
    finally:
        # Under -m, CPython lets SIGINT end a process in which Ctrl-C left the text of an exec() (as
        # dataclasses have), though it was caught after that; the next exec() makes it forget.
        exec("")


def _open_streams() -> None:
    """Open what the caller has closed (``>&-``), in order: no other file may get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
