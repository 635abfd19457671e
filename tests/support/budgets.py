"""What something may take: no test fails by it, `nox -s budgets` prints how much of it was taken.

How long a thing takes on a machine that does other work says nothing of the thing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

VARIABLE = "ALLOCMARK_TEST_BUDGETS"
"""Names the file that budgets are noted in, a JSON array a line: name, taken, allowed."""
budget = pytest.mark.budget
"""Marks a test that notes one."""


def note(name: str, taken: float, allowed: float) -> None:
    """Note what was taken of a budget, both in the same unit: seconds, or shares of a core."""
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([name, taken, allowed]) + "\n")
