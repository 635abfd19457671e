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
    raise SystemExit(main())
