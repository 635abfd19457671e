"""The wheel holds everything that the package reads at run time, and no more."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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


def test_what_only_developers_run_is_told_to_be_in_a_clone(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "allocmark", "dev", "power", "results"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "allocmark: allocmark dev power is not installed: run it in a clone\n"


def test_everything_else_works_without_it(wheel: Path, tmp_path: Path) -> None:
    """Whatever is imported at all can be: nothing in the wheel needs what is not in it."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    text = "allocmark.tools"
    users = [path for path in tmp_path.rglob("*.py") if text in path.read_text()]
    assert [str(path.relative_to(tmp_path)) for path in users] == ["allocmark/commands/dev.py"]
