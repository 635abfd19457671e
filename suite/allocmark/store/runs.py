"""Which runs a record holds, told from the names of its folders: no document is opened for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.schema import documents, run_state
from allocmark.system.errors import NoResultsError, NothingBeforeError


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The documents of one stack and profile in one results folder, as they are now.

    `started` is UTC in ISO 8601, empty where it is not known; `finished` whether it came to its
    end, `whole` whether all was asked for and not some documents only.
    """

    folder: Path
    machine: str
    stack: str
    profile: str
    started: str
    finished: bool
    whole: bool = True

    @property
    def series_id(self) -> tuple[str, str, str]:
        """What stays the same when a stack is updated: machine, profile, framework."""
        return self.machine, self.profile, documents.framework_of(self.stack)

    @property
    def results(self) -> Path:
        """The results folder that it lies in."""
        return self.folder.parents[2]

    @property
    def name(self) -> str:
        """How people are told of it."""
        return f"{self.machine}/{self.stack} of {self.started or 'an unknown time'}"

    def repeats(self, other: RecordedRun) -> bool:
        """Whether it is the other one, or a copy of it."""
        same = self.started == other.started and self.stack == other.stack
        return self.folder.resolve() == other.folder.resolve() or (bool(self.started) and same)

    def documents(self) -> list[Path]:
        """Return its result files."""
        return sorted(self.folder.glob(f"*{documents.SUFFIX}"))


def runs_below(root: Path) -> list[RecordedRun]:
    """Return the runs of a results folder, or of all results folders below one, oldest first."""
    folders = {path.parent for path in root.rglob(f"*{documents.SUFFIX}")}
    return sorted(map(_run, folders), key=lambda run: (run.started, str(run.folder)))


def candidate_of(runs: Sequence[RecordedRun], root: Path) -> RecordedRun:
    """Return the newest run. Raises `AllocmarkError` where there is none."""
    if not runs:
        raise NoResultsError(root)
    return runs[-1]


def baselines_of(
    runs: Sequence[RecordedRun], candidate: RecordedRun, last: int
) -> list[RecordedRun]:
    """Return the `last` runs before the candidate on its line that came to their end.

    Raises `NothingBeforeError` where there is none to hold it against.
    """
    before = [
        run
        for run in runs
        if run.series_id == candidate.series_id
        and not run.repeats(candidate)
        and run.finished
        and (run.whole or not candidate.whole)
        and run.started <= candidate.started
    ]
    if not before:
        raise NothingBeforeError(
            f"there is nothing before {candidate.name} to hold it against: the first run of its "
            "machine, profile and framework passes (a second run of a stack replaces the first in "
            "its results folder: measure nights into results folders of their own below one, as "
            "`nox -s nightly` does, or name a stack or folder with --against)"
        )
    return before[-last:]


def newest_of_each_series(runs: Sequence[RecordedRun]) -> list[RecordedRun]:
    """Return the newest run, and those of the other lines in its results folder, newest first.

    One command measures each framework under its own stack.
    """
    together = [run for run in runs if run.results == runs[-1].results]
    found: dict[tuple[str, str, str], RecordedRun] = {}
    for run in reversed(together):
        if (run.machine, run.profile) == (runs[-1].machine, runs[-1].profile):
            found.setdefault(run.series_id, run)
    return list(found.values())


def of_its_series(against: Sequence[RecordedRun], candidate: RecordedRun) -> list[RecordedRun]:
    """Return those of the runs that the candidate can be held against.

    All where they are of another machine: that is another question. Raises `NothingBeforeError`
    where there is none.
    """
    if all(run.machine != candidate.machine for run in against):
        return list(against)
    found = [run for run in against if run.series_id == candidate.series_id]
    if not found:
        machine, profile, framework = candidate.series_id
        raise NothingBeforeError(
            f"what --against names holds no {profile} run of {framework} on {machine}, which "
            f"{candidate.name} is"
        )
    others = [run for run in found if not run.repeats(candidate)]
    if not others:
        raise NothingBeforeError(
            f"what --against names is the run itself, {candidate.name}: name an earlier one"
        )
    return others


def _run(folder: Path) -> RecordedRun:
    stack = folder.parent
    names = (stack.parent.name, stack.name, folder.name)
    state = run_state.read(folder)
    if state is None:  # Of unknown time, and not taken for finished.
        return RecordedRun(folder, *names, started="", finished=False)
    return RecordedRun(folder, *names, state.started, state.finished is not None, state.whole)
