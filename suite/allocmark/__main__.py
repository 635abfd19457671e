"""``python -m allocmark``, and the command of that name."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; Ctrl-C while it is being imported is a sentence like any other."""
    try:
        from allocmark.cli import main as run

        return run()
    except KeyboardInterrupt:
        from allocmark.errors import StoppedError
        from allocmark.sentences import sentence

        print(sentence(StoppedError()), file=sys.stderr)
        return StoppedError.exit_code


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    finally:
        # Under -m, CPython lets SIGINT end a process in which Ctrl-C left the text of an exec() (as
        # dataclasses have), though it was caught after that; the next exec() makes it forget.
        exec("")
