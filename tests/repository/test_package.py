"""The wheel holds what the package reads at run time, and declares what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.emulation import needs_torch
from tests.support.installed import Installed, install

ROOT = Path(__file__).parents[2]


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


def test_the_wheel_is_as_small_as_the_readme_says(wheel: Path) -> None:
    assert round(wheel.stat().st_size / 1e6) == 1


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
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an environment with the wheel, torch, and what both declare."""
    return install(wheel, tmp_path_factory.mktemp("plain"), "torch")


@pytest.fixture(scope="module")
def reporting(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Return an environment with the wheel and its extra for reports, without a framework."""
    return install(wheel, tmp_path_factory.mktemp("reporting"), extras=("report",))


def test_nothing_of_the_clone_is_used(installed: Installed, reporting: Installed) -> None:
    for one in (installed, reporting):
        done = one.run("python", "-c", "import allocmark; print(allocmark.__file__)")
        assert Path(done.stdout.strip()).is_relative_to(one.folder), done.stderr
    for absent in ("matplotlib", "pytest"):
        assert installed.run("python", "-c", f"import {absent}").returncode == 1


def test_what_only_developers_run_is_said_to_be_in_a_clone(installed: Installed) -> None:
    done = installed.run("allocmark", "dev", "power", "results")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "allocmark: allocmark dev power is not installed: run it in a clone\n"


def test_nothing_else_needs_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as held:
        sources = {name: held.read(name).decode() for name in held.namelist() if ".py" in name}
    users = [name for name, text in sources.items() if "allocmark.tools" in text]
    assert users == ["allocmark/commands/dev.py"]


def test_it_lists_what_there_is(installed: Installed) -> None:
    names = installed.output("allocmark", "list").split()
    assert {"torch-native", "cuda-malloc", "uniform", "latency"} <= set(names)


@needs_torch
def test_a_job_is_recorded_and_replayed(installed: Installed, tmp_path: Path) -> None:
    example = (ROOT / "examples" / "out_of_memory.py").read_text()
    (tmp_path / "train.py").write_text(example)
    emulate = ("allocmark", "emulate", "--memory", "24GiB", "--")
    done = installed.run(*emulate, "allocmark", "record", "--", "python", "train.py", cwd=tmp_path)
    assert done.returncode == 1 and "written at oom" in done.stderr, done.stderr
    words = ("replay", "snapshot.pickle", "--setting", "torch-expandable", "--page", "page.html")
    answer = " ".join(installed.output("allocmark", *words, cwd=tmp_path).split())
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True fits this card" in answer
    assert "<svg" in (tmp_path / "page.html").read_text()


_ASKS = """
import subprocess, sys
holds = (
    "import allocmark, sys, torch; allocmark.watch(); "
    "kept = torch.empty(100 << 20, dtype=torch.uint8, device='cuda'); "
    "import time; time.sleep(3); print('ready', flush=True); sys.stdin.readline()"
)
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
one = subprocess.Popen([sys.executable, "-c", holds], **pipes)
one.stdout.readline()
words = ["allocmark", "explain", "--pid", str(one.pid), "--format", "json"]
code = subprocess.run(words).returncode
one.communicate("")
sys.exit(code)
"""


@needs_torch
def test_a_running_process_is_explained(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(_ASKS)
    told = installed.output("allocmark", "emulate", "--", "python", "asks.py", cwd=tmp_path)
    assert '"live_bytes": 104857600' in told, json.loads(told)


def test_a_part_is_measured_and_reported(reporting: Installed, tmp_path: Path) -> None:
    run = ("run", "--quick", "--experiment", "fragmentation", "--allocator", "cuda-malloc")
    results = ("--results", "results")
    page = tmp_path / "reports" / "index.html"
    emulated = ("allocmark", "emulate", "--", "allocmark", *run, *results)
    assert reporting.output(*emulated, cwd=tmp_path) == f"{page}\n"
    page.unlink()
    assert reporting.output("allocmark", "report", *results, cwd=tmp_path) == f"{page}\n"
    assert "cuda-malloc" in page.read_text()


@pytest.mark.parametrize("words", [("report",), ("run", "--quick", "--experiment", "latency")])
def test_without_the_extra_a_report_says_what_is_missing_before_anything_is_measured(
    installed: Installed, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "results").mkdir()
    done = installed.run("allocmark", *words, "--results", "results", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    needed = "a report needs matplotlib, seaborn: install allocmark with its extra"
    assert done.stderr == f"allocmark: {needed}, allocmark[report]\n"
