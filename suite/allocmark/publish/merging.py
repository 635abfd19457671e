"""Results of many nights and machines as one results folder: of each stack the newest run."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from allocmark.store.runs import RecordedRun, runs_below
from allocmark.system.errors import AllocmarkError


def newest_runs(roots: Iterable[Path]) -> list[RecordedRun]:
    """Return of each machine, stack and profile the newest run, one that came to its end first."""
    runs = [run for root in roots for run in runs_below(root)]
    runs.sort(key=lambda run: (run.finished, run.started, str(run.folder)))
    found = {(run.machine, run.stack, run.profile): run for run in runs}
    return [found[key] for key in sorted(found)]


def merge(roots: Sequence[Path], out: Path) -> Path:
    """Copy the newest runs below `roots` into the empty folder `out`, laid out as results are.

    Raises `AllocmarkError` where there is none, or `out` is not empty.
    """
    runs = newest_runs(roots)
    if not runs:
        raise AllocmarkError(f"no results below {', '.join(map(str, roots))}: name other folders")
    if out.exists() and any(out.iterdir()):
        raise AllocmarkError(f"{out} is not empty: name another folder")
    for run in runs:
        target = out / run.machine / run.stack / run.profile
        target.mkdir(parents=True)
        for path in run.documents():
            shutil.copyfile(path, target / path.name)
    return out
