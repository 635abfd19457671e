"""The Slurm example, run by bash with a clone whose nights are words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "slurm" / "nightly.sbatch"
START = """import os, sys
print(os.environ["ALLOCMARK_MACHINE"], *sys.argv[1:], flush=True)
sys.exit(2 if sys.argv[2] in os.environ.get("BROKEN", "").split() else 0)
"""


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    """A clone to submit from."""
    clone = tmp_path / "submitted"
    (clone / "suite").mkdir(parents=True)
    (clone / "suite" / "start.py").write_text(START)
    git = ("git", "-C", str(clone), "-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "start"]):
        subprocess.run([*git, *words], check=True)
    return clone


def _task(submitted: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "ALLOCMARK"))}
    environment |= {
        "SLURM_SUBMIT_DIR": str(submitted),
        "CLONE_ROOT": str(submitted.parent / "clones"),
        "RECORD": "/record",
        **variables,
    }
    return subprocess.run(
        ["bash", SCRIPT, *words], env=environment, capture_output=True, text=True, check=False
    )


def test_both_lanes_run_and_words_reach_them(submitted: Path) -> None:
    done = _task(submitted, "--", "--experiment", "latency", SLURM_ARRAY_TASK_ID="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"a100 night {lane} --record /record -- --experiment latency"
        for lane in ("pinned", "rolling")
    ]


def test_an_array_has_any_range_and_is_not_needed(submitted: Path) -> None:
    assert _task(submitted, SLURM_ARRAY_TASK_ID="2").stdout.startswith("gpu2 night pinned")
    assert _task(submitted).stdout.startswith("h100 night pinned")


@pytest.mark.parametrize("broken", ["pinned", "rolling", "pinned rolling"])
def test_a_night_that_fails_fails_its_task_after_the_other(submitted: Path, broken: str) -> None:
    done = _task(submitted, BROKEN=broken)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    words = " ".join(f"{lane} (exit code 2)" for lane in broken.split())
    assert f"allocmark: no night of {words}: the reasons stand above" in done.stderr


def test_a_clone_that_was_cut_off_is_made_anew_and_follows(submitted: Path) -> None:
    half = submitted.parent / "clones" / "h100.new"
    half.mkdir(parents=True)
    (half / "half").touch()
    assert _task(submitted).returncode == 0
    assert not half.exists()
    (submitted / "suite" / "start.py").write_text("print('newer')")
    git = ("git", "-C", str(submitted), "-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run([*git, "commit", "--quiet", "--all", "-m", "newer"], check=True)
    assert _task(submitted).stdout == "newer\nnewer\n"


def test_without_a_record_it_says_so(submitted: Path) -> None:
    done = _task(submitted, RECORD="")
    assert done.returncode != 0
    assert "name the folder that holds the nights" in done.stderr


def test_a_requeued_task_goes_on_in_its_log() -> None:
    options = [line.split()[1] for line in SCRIPT.read_text().splitlines() if "#SBATCH" in line]
    assert {"--requeue", "--open-mode=append"} <= set(options)
