"""Nights of runners become commits of the branch that holds the record."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / ".ci" / "merge-nights"


def _git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def _night(folder: Path, name: str) -> None:
    results = folder / "pinned" / name / "results" / "machine" / "stack" / "quick"
    results.mkdir(parents=True)
    for path in (results / "context.driver.json.gz", results / "figures.parquet"):
        path.write_text(name)
    (folder / "pinned" / name / "reports").mkdir()
    (folder / "pinned" / name / "reports" / "index.html").touch()
    (folder / "pinned" / name / "night.json").write_text("{}")
    (folder / "pinned" / name / "run.lock").touch()


def test_new_nights_are_committed_without_what_is_made_of_them(tmp_path: Path) -> None:
    origin, clone, tonight = (tmp_path / name for name in ("origin", "clone", "tonight"))
    origin.mkdir()
    _git(origin, "init", "--quiet", "--bare", "--initial-branch=main")
    _git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    (clone / ".gitignore").write_text("/nightly/\n")
    _git(clone, "add", ".")
    _git(clone, "commit", "--quiet", "-m", "start")
    _git(clone, "push", "--quiet", "origin", "HEAD:main")
    for name in ("one", "two"):
        _night(tonight, name)
        done = subprocess.run(
            [SCRIPT, tonight, "nightly"],
            cwd=clone,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [str(tonight / "pinned" / name)]
    kept = _git(origin, "ls-tree", "-r", "--name-only", "nightly").splitlines()
    assert kept == [
        f"nightly/pinned/{name}/{path}"
        for name in ("one", "two")
        for path in ("night.json", "results/machine/stack/quick/context.driver.json.gz")
    ]
