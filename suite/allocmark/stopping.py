"""How a program that is started by ``python -m`` ends after Ctrl-C: with a sentence, as all do."""

from __future__ import annotations

import sys
from collections.abc import Callable

from allocmark.errors import StoppedError
from allocmark.sentences import sentence


def until_stopped(main: Callable[[], int]) -> int:
    """Run `main` to its end or until Ctrl-C; returns the exit code."""
    try:
        return main()
    except KeyboardInterrupt:
        print(sentence(StoppedError()), file=sys.stderr)
        return StoppedError.exit_code
    finally:
        # Under -m, CPython lets SIGINT end a process in which Ctrl-C left the text of an exec() (as
        # dataclasses have), though it was caught after that; the next exec() makes it forget.
        exec("")
