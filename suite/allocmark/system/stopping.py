"""How a program that is started by ``python -m`` ends when it is ended from outside.

After Ctrl-C with a sentence, as all do; where the reader of its output has gone, silently. A fault
of allocmark's own is no answer either: it never ends as what found a regression does.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from allocmark.system.errors import EXIT_UNCLEAR, ReaderGoneError, StoppedError
from allocmark.system.sentences import sentence


def _told() -> int:
    print(sentence(StoppedError()), file=sys.stderr)
    return StoppedError.exit_code


def until_stopped(main: Callable[[], int]) -> int:
    """Run `main` to its end, until Ctrl-C, or until nobody reads; returns the exit code."""
    _open_streams()
    try:
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


def _open_streams() -> None:
    """Open what the caller has closed (``>&-``), in order: no other file may get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
