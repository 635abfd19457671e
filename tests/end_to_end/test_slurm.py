"""The Slurm examples as they stand, submitted to a real Slurm of two nodes: `nox -s slurm`.

Nights measure a part on the emulated driver. Their environments are those of the tests: what makes
one is tried in tests/starter/test_lanes.py.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import slurm_cluster
from tests.support.clone import ROOT
from tests.support.emulation import needs_emulator, needs_torch

ASKED = "ALLOCMARK_TEST_SLURM"
pytestmark = [
    needs_emulator,
    needs_torch,
    pytest.mark.skipif(
        ASKED not in os.environ or slurm_cluster.missing() is not None,
        reason=slurm_cluster.missing() or f"minutes, with daemons of Slurm: nox -s slurm ({ASKED})",
    ),
]
PART = ("--", "--experiment", "placement", "--allocator", "torch-native")
_DONE = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"}
_LIMIT_S = 180.0
_PREPARED = """
import sys
sys.path.insert(0, "suite")
from starter import lanes
for one in lanes.environments("pinned", False, True):
    print(one.folder)
"""


@dataclass(frozen=True)
class Slurm:
    """A cluster, a clone to submit from, and where its jobs keep things."""

    folder: Path
    variables: Mapping[str, str]

    @property
    def record(self) -> Path:
        return self.folder / "record"

    def submit(self, *words: str, options: tuple[str, ...] = (), **variables: str) -> str:
        script = self.folder / "submitted" / "examples" / "slurm" / "nightly.sbatch"
        own = {"LANES": "pinned", **variables}
        done = self.call("sbatch", "--parsable", *options, str(script), *words, **own)
        return done.strip()

    def call(self, *words: str, **variables: str) -> str:
        done = subprocess.run(
            words,
            cwd=self.folder / "submitted",
            env={**self.variables, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def job(self, job: str) -> list[dict[str, str]]:
        """Return what is known of each task of a job."""
        lines = self.call("scontrol", "--oneliner", "show", "job", job).splitlines()
        return [dict(w.split("=", 1) for w in line.split() if "=" in w) for line in lines]

    def ended(self, job: str) -> list[dict[str, str]]:
        return self.until(job, lambda tasks: all(t["JobState"] in _DONE for t in tasks))

    def until(self, job: str, holds: Any) -> list[dict[str, str]]:
        end = time.monotonic() + _LIMIT_S
        while not holds(tasks := self.job(job)):
            assert time.monotonic() < end, (tasks, self.logs())
            time.sleep(0.3)
        return tasks

    def nights(self) -> list[dict[str, Any]]:
        paths = sorted(self.record.glob("*/*/night.json"))
        found = [{**json.loads(path.read_bytes()), "folder": str(path.parent)} for path in paths]
        return sorted(found, key=lambda night: str(night["started"]))

    def logs(self) -> str:
        paths = sorted((self.folder / "submitted").glob("allocmark-*.log"))
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in paths)

    def log(self, job: str, task: int) -> str:
        return (self.folder / "submitted" / f"allocmark-{job}-{task}.log").read_text()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    subprocess.run(["git", "clone", "--quiet", ROOT, folder / "submitted"], check=True)
    _with_python(folder)
    for name in ("h100", "a100", "gpu2"):
        _with_environments(folder, name)
    _with_prolog(folder)
    emulator = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200", "--memory", "8GiB"]
    cluster = [sys.executable, slurm_cluster.__file__, str(folder)]
    path = os.pathsep.join([str(ROOT / "suite"), str(ROOT)])
    with (
        (folder / "daemons.log").open("w") as log,
        subprocess.Popen(
            [*emulator, "--", *cluster],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as daemons,
    ):
        assert daemons.stdout is not None and daemons.stdin is not None
        assert daemons.stdout.readline() == "up\n", (folder / "daemons.log").read_text()
        yield Slurm(folder, _variables(folder))
        daemons.stdin.close()


def _variables(folder: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ALLOCMARK", "SLURM"))}
    return {
        **kept,
        **json.loads((folder / "variables.json").read_text()),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": "",
        "SLURM_CONF": str(folder / "slurm.conf"),
        "CLONE_ROOT": str(folder / "clones"),
        "RECORD": str(folder / "record"),
        "ALLOCMARK_LEFT_OUT_TENSORFLOW": "not in this test",
    }


def _with_python(folder: Path) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(sys.executable)


def _with_environments(folder: Path, name: str) -> None:
    """Put environments where the night of a kind looks for them: whole, by the locks' digest."""
    clone = folder / "clones" / name
    subprocess.run(["git", "clone", "--quiet", folder / "submitted", clone], check=True)
    python = str(folder / "bin" / "python3")
    done = subprocess.run(
        [python, "-c", _PREPARED], cwd=clone, capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        program = Path(line) / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nPYTHONPATH={clone}/suite exec {sys.executable} "$@"\n')
        program.chmod(0o755)
        (Path(line) / "allocmark-whole").touch()


def _with_prolog(folder: Path) -> None:
    """Have the example's prolog run on the emulated driver, with the fault that a file names."""
    command = folder / "allocmark"
    path = f"{ROOT / 'suite'}:{ROOT}"
    emulator = f"{sys.executable} -m allocmark.emulator --gpu h200 --memory 4GiB --"
    command.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={path} ALLOCMARK_PYTHON_TORCH=/none\n"
        f"ALLOCMARK_EMULATOR_FAULTS=$(cat {folder}/faults) export ALLOCMARK_EMULATOR_FAULTS\n"
        f'exec {emulator} {sys.executable} -m allocmark "$@"\n'
    )
    (folder / "faults").touch()
    wrapper = folder / "prolog.sh"
    wrapper.write_text(
        f"#!/bin/sh\nPATH={os.environ['PATH']} ALLOCMARK={command} RECORD=/none "
        f"HOME={Path.home()} exec bash {ROOT}/examples/slurm/prolog.sh\n"
    )
    for script in (command, wrapper):
        script.chmod(0o755)


def test_an_array_measures_each_kind_and_is_gated_the_next_night(slurm: Slurm) -> None:
    first = slurm.ended(slurm.submit(*PART))
    assert [task["JobState"] for task in first] == ["COMPLETED"] * 2, slurm.logs()
    nights = slurm.nights()
    assert [night["outcome"] for night in nights] == ["first", "first"]
    assert len({night["host"] for night in nights}) == 2
    second = slurm.ended(slurm.submit(*PART))
    assert [task["JobState"] for task in second] == ["COMPLETED"] * 2, slurm.logs()
    assert sorted(n["outcome"] for n in slurm.nights()) == ["fine", "fine", "first", "first"]


def test_a_range_of_any_beginning(slurm: Slurm) -> None:
    (task,) = slurm.ended(job := slurm.submit(*PART, options=("--array=2-2",)))
    assert task["JobState"] == "COMPLETED", slurm.logs()
    assert "first night" in slurm.log(job, 2)


def test_a_night_that_fails_fails_its_task_and_says_why(slurm: Slurm) -> None:
    job = slurm.submit(*PART, options=("--array=0-0",), LANES="none pinned")
    (task,) = slurm.ended(job)
    assert (task["JobState"], task["ExitCode"]) == ("FAILED", "1:0")
    text = slurm.log(job, 0)
    assert "unknown lane 'none': choose from pinned, rolling" in text
    assert "no night of none (exit code 2)" in text
    assert "pinned lane, emulated-nvidia-h200-h100: fine" in text


def test_a_killed_task_goes_on_elsewhere_and_keeps_its_log(slurm: Slurm) -> None:
    before = len(slurm.nights())
    job = slurm.submit("--", "--experiment", "fragmentation", options=("--array=1-1",))
    (task,) = slurm.until(job, lambda tasks: tasks[0]["JobState"] == "RUNNING")
    slurm.until(job, lambda _: len(slurm.nights()) > before)
    node = task["NodeList"]
    (cut,) = (night for night in slurm.nights() if not night["finished"])
    slurm.call("scontrol", "requeue", f"{job}_1")
    slurm.call("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    (again,) = slurm.until(
        job, lambda tasks: tasks[0]["JobState"] == "RUNNING" and tasks[0]["Restarts"] == "1"
    )
    assert again["NodeList"] != node
    (done,) = slurm.ended(job)
    slurm.call("scontrol", "update", f"nodename={node}", "state=resume")
    assert done["JobState"] == "COMPLETED", slurm.logs()
    assert len(slurm.nights()) == before + 1
    (ended,) = (night for night in slurm.nights() if night["folder"] == cut["folder"])
    assert ended["finished"]
    assert "fragmentation" in slurm.log(job, 1)


def test_the_prolog_keeps_jobs_off_a_node_that_fails_the_check(slurm: Slurm) -> None:
    (slurm.folder / "faults").write_text("cuMemAlloc@20=error:214")
    job = slurm.submit(*PART, options=("--array=0-0",))
    end = time.monotonic() + _LIMIT_S
    while "Prolog error" not in (told := slurm.call("scontrol", "show", "nodes")):
        assert time.monotonic() < end, told
        time.sleep(0.3)
    (slurm.folder / "faults").write_text("")
    slurm.call("scancel", job)
    for node in slurm_cluster.NODES:
        if "DRAIN" in slurm.call("scontrol", "show", "node", node):
            slurm.call("scontrol", "update", f"nodename={node}", "state=resume")


def test_the_nights_are_searched_for_odd_machines_and_published(
    slurm: Slurm, tmp_path: Path
) -> None:
    own = {**slurm.variables, "PYTHONPATH": str(ROOT / "suite")}
    fleet = [sys.executable, "-m", "allocmark", "fleet", str(slurm.record)]
    done = subprocess.run(fleet, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 machines of Emulated NVIDIA H200" in done.stdout and "none is odd" in done.stdout
    if shutil.which("mkdocs") is None and not (Path(sys.executable).parent / "mkdocs").exists():
        return
    publish = [sys.executable, "-m", "allocmark.publish", str(slurm.record), "--project", str(ROOT)]
    publish += ["--out", str(tmp_path / "site"), "--scratch", str(tmp_path / "scratch")]
    done = subprocess.run(publish, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "nights" / "index.html").is_file()
    assert (tmp_path / "site" / "fleet" / "index.html").is_file()
