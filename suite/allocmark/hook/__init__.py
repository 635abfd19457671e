"""What enters a program that a command of allocmark starts, through Python's own start."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

INSIDE = Path(__file__).parent / "inside"
"""Modules for the interpreter of the program, whichever it is: standard library only."""
_PATH = "PYTHONPATH"


def entering(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables that have every Python below a command load what is `INSIDE`."""
    before = [p for p in os.environ.get(_PATH, "").split(os.pathsep) if p and p != str(INSIDE)]
    return {**variables, _PATH: os.pathsep.join([str(INSIDE), *before])}
