"""docs/reliability.md names tests that are there and marked, and the matrix's figures."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.faults import ACTIONS, SHORT

ROOT = Path(__file__).parents[2]
_PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
_MARK = "pytestmark = pytest.mark.fault"
_GATE = "tests/gate/test_gate.py"
"""Named for one test of many."""


def test_every_test_of_faults_is_named_and_every_name_is_one() -> None:
    named = set(re.findall(r"`(tests/[^`]+\.py)`", _PAGE))
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if f"\n{_MARK}\n" in path.read_text(encoding="utf-8")
    }
    assert named - {_GATE} <= marked
    assert marked - named == {"tests/emulator/test_faults.py"}  # The emulator's own rules.


def test_the_figures_are_those_of_the_matrix() -> None:
    stages = sum(len(short.stages) for short in SHORT.values())
    figures = {
        "kinds": len(ACTIONS),
        "stages": stages,
        "experiments": len(SHORT),
        "cells": stages * len(ACTIONS),
    }
    told = {name: int(value) for name, value in re.findall(r"<!-- (\w+) -->(\d+)<!-- -->", _PAGE)}
    assert told == figures
