"""The command line in this process, as ``python -m allocmark`` runs it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from unittest import mock

from allocmark.__main__ import main
from allocmark.system.command_line import run_command


def allocmark(*words: str) -> int:
    """Return the exit code of a command."""
    with mock.patch.object(sys, "argv", ["allocmark", *words]):
        return main()


def program(command: Callable[..., None], *words: str) -> int:
    """Return the exit code of a program with one command."""
    with mock.patch.object(sys, "argv", ["program", *words]):
        return run_command(command)
