"""The stacks of a record in the order they were first run, by asv's result files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from allocmark.schema.documents import SUFFIX, framework_of

_NO_RESULTS = {"machine.json", "benchmarks.json"}
_VERSIONS = ("driver", "cuda", "torch", "tensorflow", "python")


@dataclass(frozen=True)
class TrackedStack:
    """One stack on one machine under one profile, as asv keeps it.

    `first_ms` is when it was first run, `last_ms` when it was last: milliseconds since 1970, UTC.
    `content` is asv's result file of the last run.
    """

    machine: str
    env_name: str
    first_ms: int
    last_ms: int
    content: Mapping[str, Any]

    @property
    def line(self) -> tuple[str, str]:
        """What one graph shows: a machine under a profile."""
        return self.machine, str(self.content["params"].get("profile", ""))

    def versions(self) -> dict[str, str]:
        """Return what a tag on the axis may tell of: driver, CUDA, frameworks, Python."""
        params = self.content["params"]
        return {name: str(params[name]) for name in _VERSIONS if params.get(name)}


def stacks_below(roots: list[Path]) -> tuple[list[TrackedStack], list[str]]:
    """Return the stacks in the order first run, and why any file was left out.

    A stack with several runs, in several results folders or under several revisions of the suite,
    is there once: with its last run, at the time of its first.
    """
    found: dict[tuple[str, str], TrackedStack] = {}
    left_out = []
    for path in _files(roots):
        try:
            stack = _read(path)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            left_out.append(f"{path} is no result file of asv ({error})")
            continue
        key = stack.machine, stack.env_name
        if (other := found.get(key)) is not None:
            newest = max(stack, other, key=lambda one: one.last_ms)
            first = min(stack.first_ms, other.first_ms)
            stack = TrackedStack(*key, first, newest.last_ms, newest.content)
        found[key] = stack
    order = sorted(found.values(), key=lambda one: (one.first_ms, one.machine, one.env_name))
    return order, left_out


def untracked(roots: list[Path], stacks: list[TrackedStack]) -> list[Path]:
    """Return the folders of documents that are not in the history: asv has kept nothing of them."""
    tracked = {
        (stack.machine, str(stack.content["params"].get("profile")), framework)
        for stack in stacks
        for framework in stack.versions()
    }
    folders = {path.parent for root in roots for path in root.rglob(f"*{SUFFIX}")}
    return [
        folder
        for folder in sorted(folders)
        if (folder.parents[1].name, folder.name, framework_of(folder.parent.name)) not in tracked
    ]


def benchmarks_below(roots: list[Path]) -> dict[str, Any]:
    """Return asv's description of the benchmarks: of each the one written last."""
    files = [path for root in roots for path in root.rglob("benchmarks.json")]
    found: dict[str, Any] = {}
    for path in sorted(files, key=lambda path: (path.stat().st_mtime, str(path))):
        try:
            found |= json.loads(path.read_bytes())
        except (OSError, ValueError, TypeError):
            continue  # Others may tell; asv says so if none does.
    return found


def _files(roots: list[Path]) -> Iterator[Path]:
    for root in roots:
        for path in sorted(root.rglob("*.json")):
            if path.name not in _NO_RESULTS and (path.parent / "machine.json").is_file():
                yield path


def _read(path: Path) -> TrackedStack:
    content = json.loads(path.read_bytes())
    columns = content["result_columns"]
    place = columns.index("started_at")
    times = [int(row[place]) for row in content["results"].values() if len(row) > place]
    if not times:
        raise ValueError("nothing was measured")
    machine = str(content["params"]["machine"])
    return TrackedStack(machine, str(content["env_name"]), min(times), max(times), content)
