"""A derived asv database whose commits are stacks, so that asv draws updates on its time axis.

asv's x axis is the history of a repository. Here that is a scratch repository with one empty commit
for each stack, dated when it was first run, and tagged where the driver or a framework changed. The
result files are asv's own, moved to these commits, with `params` cut to what stays the same: asv
draws a line for each set of `params`, so a version among them would leave lines of one point.

It can be made again at any time; results are never written to.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from allocmark.asv.history.derived import write_result_files
from allocmark.asv.history.stacks import TrackedStack, benchmarks_below, stacks_below, untracked
from allocmark.schema.documents import write_whole
from allocmark.system.errors import DISK_FULL, AllocmarkError, DiskFullError

CONFIG = "asv.conf.json"
SITE = "html"
_WHO = "allocmark <allocmark@localhost>"
_KEPT = ("machine", "gpu", "profile")
_NO_TAG = re.compile(r"[^A-Za-z0-9.+_-]+")
_ENV = "stack"
_DERIVED = "derived"


def build(roots: Sequence[Path], folder: Path, project: Path | None = None) -> list[str]:
    """Write the database of the results folders `roots` into `folder`, which is new or its own.

    What asv has kept nothing of is made of its documents, where `project` has the benchmarks.
    Returns why any file or stack was left out. Raises `AllocmarkError` where nothing is tracked by
    asv, or `folder` holds something else.
    """
    every = list(roots)
    _clear(folder)
    stacks, left_out = stacks_below(every)
    if project is not None and (folders := untracked(every, stacks)):
        every.append(folder / _DERIVED)
        left_out += write_result_files(folders, project, every[-1])
        stacks, more = stacks_below(every)
        left_out = [*dict.fromkeys([*left_out, *more])]
    if not stacks:
        raise AllocmarkError(
            f"nothing below {', '.join(map(str, roots))} is tracked: measure with `allocmark run`, "
            "without a filter, or name another folder"
        )
    commits = _commits(folder, stacks)
    results = folder / "results"
    for stack, commit in zip(stacks, commits, strict=True):
        _write_result(results, stack, commit)
    benchmarks = benchmarks_below(every)
    _write_json(results / "benchmarks.json", benchmarks)
    _write_json(folder / CONFIG, _configuration())
    return [
        *left_out,
        *(
            f"{folder} has no result file of asv: measure it without a filter"
            for folder in untracked(list(roots), stacks)
        ),
    ]


def publish(folder: Path) -> Path:
    """Let asv make its site of the database; returns its folder. Raises `AllocmarkError`."""
    command = [sys.executable, "-m", "asv", "publish", "--no-pull", "--config", CONFIG]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _failed("asv publish", folder, done.stderr.strip() or done.stdout.strip())
    return folder / SITE


def _clear(folder: Path) -> None:
    """Empty a database that was here before. Raises `AllocmarkError` for any other folder."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / CONFIG).is_file() or not (folder / ".git").is_dir():
            raise AllocmarkError(f"{folder} holds something else: name an empty folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)


def _commits(folder: Path, stacks: Sequence[TrackedStack]) -> list[str]:
    """Make a commit for each stack and return their hashes."""
    _git(folder, "init", "--quiet", "--initial-branch=main")
    marks = Path(".git", "marks")  # git works in the folder.
    _git(folder, "fast-import", "--quiet", f"--export-marks={marks}", given=_stream(stacks))
    found = dict(line.split() for line in (folder / marks).read_text().splitlines())
    return [found[f":{number}"] for number in range(1, len(stacks) + 1)]


def _stream(stacks: Sequence[TrackedStack]) -> bytes:
    lines: list[str] = []
    tags: dict[str, int] = {}
    before: dict[tuple[str, str], TrackedStack] = {}
    for number, stack in enumerate(stacks, 1):
        message = f"{stack.machine} {stack.env_name}"
        lines += [
            "commit refs/heads/main",
            f"mark :{number}",
            # Two stacks of one second keep their order: asv sorts by the commits themselves.
            f"committer {_WHO} {stack.first_ms // 1000} +0000",
            f"data {len(message.encode())}",
            message,
        ]
        for name in _news(before.get(stack.line), stack):
            tags.setdefault(name, number)
        before[stack.line] = stack
    for name, number in tags.items():
        lines += [f"reset refs/tags/{name}", f"from :{number}", ""]
    return ("\n".join(lines) + "\n").encode()


def _news(before: TrackedStack | None, stack: TrackedStack) -> list[str]:
    """Return a tag for each version that changed on this machine; none for its first stack."""
    if before is None:
        return []
    old, new = before.versions(), stack.versions()
    return [
        _NO_TAG.sub("-", f"{stack.machine}-{name}-{version}").strip("-.")
        for name, version in new.items()
        if old.get(name) != version
    ]


def _write_result(results: Path, stack: TrackedStack, commit: str) -> None:
    content: dict[str, Any] = dict(stack.content)
    params = {name: content["params"][name] for name in _KEPT if name in content["params"]}
    content |= {
        "commit_hash": commit,
        "date": stack.first_ms,
        "env_name": _ENV,
        "params": params,
        "requirements": {},
        "python": "",
    }
    folder = results / stack.machine
    # The whole hash: two of a thousand stacks might begin alike.
    _write_json(folder / f"{commit}-{_ENV}.json", content)
    machine = {**params, "version": 1}
    machine.pop("profile", None)
    _write_json(folder / "machine.json", machine)


def _configuration() -> dict[str, object]:
    return {
        "version": 1,
        "project": "allocmark, by stack",
        "repo": ".",
        "branches": ["main"],
        "results_dir": "results",
        "html_dir": SITE,
    }


def _write_json(path: Path, content: Any) -> None:
    write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def _git(folder: Path, *words: str, given: bytes | None = None) -> None:
    try:
        subprocess.run(["git", *words], cwd=folder, input=given, capture_output=True, check=True)
    except subprocess.CalledProcessError as error:
        stderr = error.stderr.decode(errors="replace").strip()
        raise _failed(f"git {words[0]}", folder, stderr) from error


def _failed(what: str, folder: Path, stderr: str) -> AllocmarkError:
    """Return the error of another program."""
    if any(os.strerror(number) in stderr for number in DISK_FULL):
        return DiskFullError(f"{what} could not write into {folder}")
    return AllocmarkError(f"{what} failed in {folder}: {stderr.rpartition(chr(10))[2]}")
