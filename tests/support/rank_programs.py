"""Programs of jobs run as one rank of them, on the emulated driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import allocmark

_SUITE = Path(allocmark.__file__).parents[1]
PROGRAMS = Path(__file__).parents[2] / "examples" / "ranks"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_SUITE)}


def emulate(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``allocmark emulate`` with these words, on an H200 beside a real driver too."""
    return run("emulate", "--gpu", "h200", *words)


def record(*words: str) -> subprocess.CompletedProcess[str]:
    return run("record", *words)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "allocmark", *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def told(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the last line that a program printed, as JSON."""
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found
