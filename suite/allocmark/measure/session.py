"""A run session: measures experiments subject by subject and writes each document as it ends.

States of a subject: *taken over* (its document belongs to this run already), *measured* (written
whole just now, with the reasons for what is missing), or *not reached* (the run was stopped; where
there is no older document, one is written that says so, and a later run measures it).
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from allocmark import __version__
from allocmark.allocators.base import Allocator
from allocmark.experiments.core import outcomes as outcomes_of
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.experiments.core.launcher import launch_all
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.machine.conditions import read_conditions
from allocmark.machine.frameworks import Share
from allocmark.machine.stack import Stack
from allocmark.measure.core_speed import core_speed_ns
from allocmark.measure.progress import Planned, Progress
from allocmark.measure.stopping import RunStoppedError
from allocmark.schema import documents
from allocmark.schema.documents import Document, Failure
from allocmark.schema.notes import NOT_REACHED, START
from allocmark.schema.run_state import now
from allocmark.system.errors import (
    DISK_FULL,
    DocumentError,
    NewerDocumentError,
    NotMeasurableError,
    UnreadableDocumentError,
)

_STOPPED_BEFORE = "the run was stopped before this was measured"


@dataclass(frozen=True)
class Session:
    """Where documents go and what they are taken under.

    `run` is the id that groups them; `takes_over` says whether documents that already carry it
    count as done, those begun at `since` (UTC in ISO 8601) or later; `share` says which subjects
    are measured under this stack, `only` names those requested, None: all.
    """

    results: Path
    stack: Stack
    profile: Profile
    run: str
    progress: Progress
    takes_over: bool = True
    since: str = ""
    device: int = 0
    allocator_file: Path | None = None
    share: Share | None = None  # None: all subjects are measured under this stack.
    allocators: Sequence[Allocator] = ()
    only: Collection[str] | None = None

    def path(self, experiment: Experiment, subject: str) -> Path:
        """Return where one document lies."""
        names = (self.stack.machine, self.stack.name, self.profile.name, experiment.name, subject)
        return documents.path_of(self.results, *names)


def folder_of(results: Path, stack: Stack, profile: Profile) -> Path:
    """Return where the documents of a stack and profile lie."""
    return results / stack.machine / stack.name / profile.name


def subjects_of(
    share: Share | None, experiment: Experiment, allocators: Sequence[Allocator], profile: Profile
) -> list[str]:
    """Return the experiment's subjects that are measured under one stack, in order."""
    subjects = experiment.subjects(allocators, profile)
    return [s for s in subjects if not share or share.holds(experiment.framework(s, allocators))]


def measure_experiments(session: Session, experiments: Iterable[Experiment]) -> Iterator[Path]:
    """Measure the subjects, one document after another.

    Raises `RunStoppedError` where the disk is full; everything finished before is saved.
    """
    # All are read first, also where none is taken over: one of a newer allocmark, or
    # one that cannot be read, ends the run before anything replaces it.
    tasks = [_planned(session, task) for task in _tasks(session, experiments)]
    # One queue for all: the processes of the next documents import while this one's measure.
    with closing(launch_all([r for task in tasks for r in task.requests])) as outcomes:
        for task in tasks:
            if task.is_done:
                session.progress.end(task.subject, 0, 0.0, kept=True)
            else:
                document = _measure(session, task, outcomes)
                _write(task.path, document)
                measured = sum(figure.value is not None for figure in document.figures)
                reason = _reason(document.failures)
                session.progress.end(task.subject, measured, document.seconds, reason)
            yield task.path


def planned(
    session: Session, experiments: Iterable[Experiment], earlier: Mapping[tuple[str, str], float]
) -> list[Planned]:
    """Return the documents of `measure_experiments`, with the seconds that they took earlier."""
    names = [(task.experiment.name, task.subject) for task in _tasks(session, experiments)]
    return [Planned(*name, earlier.get(name)) for name in names]


def mark_rest(session: Session, experiments: Iterable[Experiment]) -> None:
    """Say of each subject without a document that the run was stopped, as far as the disk allows.

    The subjects are those of `measure_experiments`.
    """
    for task in _tasks(session, experiments):
        try:
            if not task.path.exists():
                stopped = [Failure(NOT_REACHED, _STOPPED_BEFORE)]
                documents.write(task.path, replace(_blank(session, task), failures=stopped))
        except OSError:
            return


@dataclass(frozen=True, slots=True)
class _Task:
    """One document: there is one of this run, or what `requests` ask for makes it.

    `failures` say why nothing can be requested.
    """

    experiment: Experiment
    subject: str
    path: Path
    is_done: bool = False
    requests: Sequence[Request] = ()
    failures: Sequence[Failure] = ()


def _tasks(session: Session, experiments: Iterable[Experiment]) -> Iterator[_Task]:
    for experiment in experiments:
        subjects = subjects_of(session.share, experiment, session.allocators, session.profile)
        chosen = [s for s in subjects if session.only is None or s in session.only]
        for subject in chosen:
            yield _Task(experiment, subject, session.path(experiment, subject))


def _planned(session: Session, task: _Task) -> _Task:
    if _is_of_this_run(task.path, session) and session.takes_over:
        return replace(task, is_done=True)
    try:
        return replace(task, requests=_requests(session, task))
    except NotMeasurableError as error:
        return replace(task, failures=[Failure(START, str(error))])


def _is_of_this_run(path: Path, session: Session) -> bool:
    try:
        document = documents.read(path)
    except (NewerDocumentError, UnreadableDocumentError):
        raise  # Measuring would replace what nobody can tell to be damaged.
    except DocumentError:
        return False
    return (
        document.run == session.run
        and document.started >= session.since
        and document.suite == __version__
        # A results folder may be shared: the run may have begun on another host.
        and document.stack == session.stack.to_json()
        and all(failure.stage != NOT_REACHED for failure in document.failures)
    )


def _requests(session: Session, task: _Task) -> list[Request]:
    experiment = task.experiment
    requests = experiment.requests(task.subject, session.profile, session.allocators)
    scaled = bool(requests) and experiment.scales_to_core_speed
    speed_ns = core_speed_ns(session.results, session.stack.machine) if scaled else None
    return [
        replace(
            request,
            environment=dict(request.environment),  # Read-only mappings cannot be sent.
            device=session.device,
            allocator_file=session.allocator_file,
            fixed_addresses=experiment.scales_to_core_speed,
            alone=experiment.alone,
            core_speed_ns=speed_ns,
        )
        for request in requests
    ]


def _measure(session: Session, task: _Task, stream: Iterator[ChildOutcome]) -> Document:
    blank, begin = _blank(session, task), time.monotonic()
    before = read_conditions(session.device).to_json()
    outcomes: list[ChildOutcome] = []
    failures = list(task.failures)
    session.progress.begin(task.subject, len(task.requests))
    for outcome in islice(stream, len(task.requests)):
        outcomes.append(outcome)
        failures += outcome.failures
        session.progress.step(len(outcomes))
    figures = outcomes_of.combined(task.experiment, outcomes, failures)
    if not figures and not failures:
        failures.append(Failure(START, "nothing was reported"))
    in_processes = round(sum(outcome.seconds for outcome in outcomes), 3)
    conditions = {
        "before": before,
        "after": read_conditions(session.device).to_json(),
        "notes": outcomes_of.notes(outcomes),
        "processes": len(outcomes),
        "seconds": {"processes": in_processes, **outcomes_of.spent(outcomes)},
    }
    return replace(
        blank,
        seconds=round(time.monotonic() - begin, 3),
        conditions=conditions,
        figures=figures,
        series=[series for outcome in outcomes for series in outcome.series],
        # Ten children that fail alike have one reason.
        failures=list(dict.fromkeys(failures)),
    )


def _blank(session: Session, task: _Task) -> Document:
    """Return a document, begun now, in which nothing is measured yet."""
    return Document(
        probe=task.experiment.name,
        subject=task.subject,
        profile=session.profile.name,
        run=session.run,
        started=now(),
        seconds=0.0,
        command=_rerun_command(session, task),
        suite=__version__,
        emulated=session.stack.emulated,
        stack=session.stack.to_json(),
        conditions={},
    )


def _rerun_command(session: Session, task: _Task) -> str:
    """Return the command line that measures this document alone."""
    words = ["allocmark", "emulate", "--"] if session.stack.emulated else []
    words += ["allocmark", "run", "--experiment", task.experiment.name, "--subject", task.subject]
    words += ["--profile", session.profile.name]
    if session.allocator_file is not None:
        words += ["--allocator-file", session.allocator_file.name]
    return shlex.join(words)


def _write(path: Path, document: Document) -> None:
    try:
        documents.write(path, document)
    except OSError as error:
        if error.errno in DISK_FULL:
            raise RunStoppedError(
                f"the disk is full: {path.name} could not be saved, everything finished before is; "
                "make room and give the same command again"
            ) from error
        raise RunStoppedError(f"{path} cannot be written ({error.strerror})") from error


def _reason(failures: Sequence[Failure]) -> str:
    """Return the first reason why figures are missing, and how many more there are."""
    if not failures:
        return ""
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    return f"{failures[0].stage}: {failures[0].reason}{more}"
