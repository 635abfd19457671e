"""The check of a pull request, as action.yml runs it: two commits of a program, one table."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.emulation import needs_torch
from tests.support.rank_programs import environment

_ROOT = Path(__file__).parents[3]
_CHECK = _ROOT / "examples" / "pull_request" / "check.sh"
PROGRAM = """import torch, torch.distributed as dist

dist.init_process_group("nccl")
def cache():
    return torch.empty({mib} << 20, dtype=torch.uint8, device="cuda")
kept = cache()
"""


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((_ROOT / "action.yml").read_text())
    return found


def test_the_action_hands_every_input_to_the_check() -> None:
    steps = action()["runs"]["steps"]
    given = "\n".join(value for step in steps for value in step.get("env", {}).values())
    for name in action()["inputs"]:
        assert f"inputs.{name} " in given, name
    script = "\n".join(step["run"] for step in steps)
    assert "${{" not in script, "what a pull request brings is no part of a script"
    assert "examples/pull_request/check.sh" in script
    assert _CHECK.stat().st_mode & stat.S_IXUSR
    for step in steps:
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


@needs_torch
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_commit_that_needs_more_fails_with_the_line(tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    command = bin / "allocmark"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m allocmark "$@"\n')
    command.chmod(0o755)
    repository = tmp_path / "repository"
    repository.mkdir()
    variables = {
        **environment(),
        **{
            f"GIT_{who}_{what}": "t@t"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
        "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=repository, env=variables, capture_output=True, text=True, check=False
        )

    run("git", "init", "-q")
    for mib in (32, 64):
        (repository / "train.py").write_text(PROGRAM.format(mib=mib))
        run("git", "add", ".")
        assert run("git", "commit", "-qm", f"{mib}").returncode == 0
    ended = run(str(_CHECK), "HEAD~1", f"{sys.executable} train.py", "1%", "2", "0")
    assert ended.returncode == 1, ended.stderr
    table = (repository / "memory-diff.md").read_text()
    assert table == ended.stdout
    assert "beyond the limit of 1%" in table
    assert "| train.py:5 cache | 32 MiB in 1 | 64 MiB in 1 | +32 MiB |" in table
    assert run("git", "worktree", "list").stdout.count("\n") == 1, "nothing is left behind"
