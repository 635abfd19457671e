"""The wheel holds everything that the package reads at run time, and no more."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from allocmark.system.units import MIB
from allocmark.workloads import trace_file
from allocmark.workloads.event_trace import Trace

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not here (extra dev)"
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    held = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "suite" / "allocmark"
    expected = {
        str(path.relative_to(package.parent))
        for path in package.rglob("*")
        if path.is_file() and not {"__pycache__", ".mypy_cache", "tools"} & {*path.parts}
    }
    assert expected - held == set()
    assert {name.split("/")[0] for name in held if ".dist-info/" not in name} == {"allocmark"}
    assert not [name for name in held if name.startswith("allocmark/tools/")]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder


def _run(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "allocmark", *words],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_only_developers_run_is_said_to_be_in_a_clone(installed: Path) -> None:
    done = _run(installed, "dev", "power", "results")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "allocmark: allocmark dev power is not installed: run it in a clone\n"


def test_nothing_else_needs_it(installed: Path) -> None:
    users = [path for path in installed.rglob("*.py") if "allocmark.tools" in path.read_text()]
    assert [str(path.relative_to(installed)) for path in users] == ["allocmark/commands/dev.py"]


def test_an_installed_allocmark_emulates_and_replays(installed: Path) -> None:
    first = np.zeros(1, np.int64)
    trace = Trace("t", first.astype(np.uint8), first, first + MIB, first.astype(np.uint8))
    trace_file.write(installed / "t.trace.gz", trace)
    words = ("replay", "t.trace.gz", "--setting", "cuda-malloc", "--emulated")
    done = _run(installed, *words, "--page", "page.html")
    assert done.returncode == 0, done.stderr
    assert "replayed on the emulated driver" in done.stdout
    assert "<svg" in (installed / "page.html").read_text()
