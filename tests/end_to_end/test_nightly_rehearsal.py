"""Three nights of each lane as a machine has them, with their own environments: gigabytes.

`nox -s nightly-rehearsal`. Both frameworks are measured in part, on the emulated driver; the third
night has another driver, whose contexts are larger.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allocmark.emulator.launcher import emulation
from allocmark.system.units import GIB, MIB
from tests.support.clone import ROOT
from tests.support.emulation import needs_emulator
from tests.support.planted_changes import CONFIG

ASKED = "ALLOCMARK_TEST_NIGHTS"
pytestmark = [
    needs_emulator,
    pytest.mark.skipif(
        ASKED not in os.environ,
        reason=f"gigabytes of environments: nox -s nightly-rehearsal ({ASKED})",
    ),
]
PART = (
    *("--experiment", "context", "--experiment", "placement"),
    *("--subject", "driver", "--subject", "torch-native", "--subject", "tf-growth"),
)
PYTHON = getattr(sys, "_base_executable", sys.executable)
"""Outside of any environment: it makes those of the nights."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("rehearsal") / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    yield folder
    shutil.rmtree(folder)


def _night(clone: Path, lane: str, planted: bool = False) -> tuple[dict[str, Any], str, str]:
    """Do a night; return what it wrote down, its summary, and what was said."""
    with emulation("h200", 8 * GIB) as variables:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ALLOCMARK")}
        environment = {**kept, **variables, "PYTHONPATH": ""}
        if planted:
            environment[CONFIG] = _other_driver(environment[CONFIG])
        command = [PYTHON, "suite/start.py", "night", lane, "--record", "record", "--", *PART]
        done = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    newest = max((clone / "record" / lane).glob("*/night.json"), key=lambda path: path.parent.name)
    summary = (newest.parent / "summary.md").read_text()
    return json.loads(newest.read_bytes()), summary, done.stdout


def _other_driver(config: str) -> str:
    """Return the emulated driver's settings with another version and larger contexts."""
    lines = dict(line.partition("=")[::2] for line in config.splitlines())
    lines["driver_version"] = "999.1"
    lines["context_bytes"] = str(int(lines["context_bytes"]) + 64 * MIB)
    return "\n".join(f"{name}={value}" for name, value in lines.items())


@pytest.mark.parametrize("lane", ["pinned", "rolling"])
def test_three_nights_of_a_lane(clone: Path, lane: str, tmp_path: Path) -> None:
    first, _, said = _night(clone, lane)
    assert first["outcome"] == "first" and "making " in said
    (night,) = (clone / "record" / lane).iterdir()
    frameworks = {path.parents[1].name for path in (night / "results").rglob("*.json.gz")}
    assert {name.rstrip("0123456789.").partition("-")[0][:5] for name in frameworks} == {
        "torch",
        "tenso",
    }
    second, _, said = _night(clone, lane)
    assert second["outcome"] == "fine" and "making " not in said
    third, summary, _ = _night(clone, lane, planted=True)
    assert third["outcome"] == "regression"
    assert summary.startswith(f"# {lane} lane, emulated-nvidia-h200: regression: ")
    assert "to 999.1" in summary and "Only the machine moved: driver " in summary
    _check_issue(clone, lane, summary, tmp_path)


def _check_issue(clone: Path, lane: str, summary: str, tmp_path: Path) -> None:
    """Let the script that opens issues speak to a stand-in of GitHub's program."""
    program = tmp_path / "gh"
    keep = f'echo "$4" >{tmp_path}/title; cp "$6" {tmp_path}/body'
    program.write_text(f'#!/bin/sh\n[ "$2" = list ] || {{ {keep}; }}\n')
    program.chmod(0o755)
    nights = sorted(str(path) for path in (clone / "record" / lane).iterdir())
    subprocess.run(
        [clone / ".ci" / "open-issues"],
        input="\n".join(nights) + "\n",
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        text=True,
        check=True,
    )
    assert (tmp_path / "title").read_text().strip() == summary.partition("\n")[0].lstrip("# ")
    assert (tmp_path / "body").read_text() == summary
