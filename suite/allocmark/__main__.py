"""``python -m allocmark``, and the command of that name."""

from __future__ import annotations

from allocmark.commands.app import app
from allocmark.system import command_line


def main() -> int:
    """Run the command line; returns the exit code."""
    return command_line.run(app)


if __name__ == "__main__":
    raise SystemExit(main())
