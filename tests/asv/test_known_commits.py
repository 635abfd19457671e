"""A clone without the commits of its results, as a shallow one is, is told what it lacks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from allocmark.asv.known_commits import lacking

pytestmark = pytest.mark.fault


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    command = ["git", "-C", str(folder), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository of three commits, with a result at the first and one at the last."""
    folder = tmp_path / "project"
    results = folder / "results" / "machine"
    results.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    for number in range(3):
        _git(folder, "commit", "--quiet", "--allow-empty", "-m", str(number))
        if number != 1:
            commit = _git(folder, "rev-parse", "HEAD")
            content = {"commit_hash": commit, "version": 2}
            (results / f"{commit[:8]}-env.json").write_text(json.dumps(content))
    (results / "machine.json").write_text("{}")
    (results / "damaged.json").write_text("{")
    _git(folder, "add", ".")
    _git(folder, "commit", "--quiet", "-m", "results")
    return folder


def test_a_whole_clone_lacks_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert lacking(Path("results")) is None


@pytest.mark.parametrize(("depth", "unknown"), [(1, 2), (2, 1)])
def test_a_shallow_clone_says_how_to_get_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, depth: int, unknown: int
) -> None:
    shallow = tmp_path / "shallow"
    _git(tmp_path, "clone", "--quiet", f"--depth={depth}", project.as_uri(), str(shallow))
    monkeypatch.chdir(shallow)
    told = lacking(Path("results"))
    assert told is not None and told.startswith(
        f"asv draws no graph of {unknown} of 2 commits with results, which git does not have here: "
        "this clone is shallow: git fetch --unshallow brings them, or let `allocmark history`"
    )


def test_a_result_of_another_repository_is_no_shallow_clone(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = project / "results" / "machine" / "other.json"
    other.write_text(json.dumps({"commit_hash": "0" * 40}))
    monkeypatch.chdir(project)
    told = lacking(Path("results"))
    assert told is not None and "1 of 3 commits" in told and "shallow" not in told
