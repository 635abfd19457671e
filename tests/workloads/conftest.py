"""What tests of the workloads share: a way onto the emulated driver."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.workloads import Run

_SUITE = Path(__file__).parents[2] / "suite"


@pytest.fixture(scope="session")
def emulated() -> Run:
    """Return a function that runs this Python on an emulated H200."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    if shutil.which(os.environ.get("CC", "cc")) is None:
        pytest.skip("there is no C compiler to build the emulated driver with")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        # The name of the GPU makes it run beside a real driver too.
        launcher = ["-m", "allocmark.emulator", "--gpu", "h200", "--memory", "141GiB", "--"]
        path = os.pathsep.join([str(_SUITE), *filter(None, [os.environ.get("PYTHONPATH")])])
        return subprocess.run(
            [sys.executable, *launcher, sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run
