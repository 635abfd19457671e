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
from typing import Any

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
from allocmark.measure.stopping import RunStoppedError
from allocmark.schema import documents
from allocmark.schema.documents import Document, Failure
from allocmark.schema.run_state import now
from allocmark.system.errors import (
    DISK_FULL,
    DocumentError,
    NewerDocumentError,
    NotMeasurableError,
    UnreadableDocumentError,
)
from allocmark.system.progress import Progress

NOT_REACHED = "run"
"""The stage of the failure that stands for everything a stopped run did not come to."""
_STOPPED_BEFORE = "the run was stopped before this was measured"


@dataclass(frozen=True)
class Session:
    """Where documents go and what they are taken under.

    `run` is the id that groups them; `takes_over` says whether documents that already carry it
    count as done, those begun at `since` (UTC in ISO 8601) or later; `share` says which subjects
    are measured under this stack.
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
    return [
        subject
        for subject in subjects
        if share is None or share.holds(experiment.framework(subject, allocators))
    ]


def measure_experiments(
    session: Session,
    experiments: Sequence[Experiment],
    allocators: Sequence[Allocator],
    only: Collection[str] | None = None,
) -> Iterator[Path]:
    """Measure the subjects (those of `only`, where it is given), one document after another.

    Raises `RunStoppedError` where the disk is full; everything finished before is saved.
    """
    # All are read first, also where none is taken over: one of a newer allocmark, or
    # one that cannot be read, ends the run before anything replaces it.
    plans = [_plan(session, experiment, allocators, only) for experiment in experiments]
    requests = [r for plan in plans for one in plan.asked.values() for r in one.requests]
    # One queue for all: the processes of the next documents import while this one's measure.
    with closing(launch_all(requests)) as outcomes:
        for plan in plans:
            yield from _carry_out(session, plan, outcomes)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The subjects of one experiment in order; those not `asked` have their document already."""

    experiment: Experiment
    subjects: Sequence[str]
    asked: Mapping[str, _Asked]


def _plan(
    session: Session,
    experiment: Experiment,
    allocators: Sequence[Allocator],
    only: Collection[str] | None,
) -> _Plan:
    chosen = _chosen(session, experiment, allocators, only)
    belongs = {s: _is_done(session.path(experiment, s), session) for s in chosen}
    done = {s for s in chosen if belongs[s] and session.takes_over}
    asked = {s: _asked(session, experiment, s, allocators) for s in chosen if s not in done}
    return _Plan(experiment, chosen, asked)


def _chosen(
    session: Session,
    experiment: Experiment,
    allocators: Sequence[Allocator],
    only: Collection[str] | None,
) -> list[str]:
    subjects = subjects_of(session.share, experiment, allocators, session.profile)
    return [subject for subject in subjects if only is None or subject in only]


def _carry_out(session: Session, plan: _Plan, outcomes: Iterator[ChildOutcome]) -> Iterator[Path]:
    experiment = plan.experiment
    for number, subject in enumerate(plan.subjects, 1):
        path = session.path(experiment, subject)
        title = f"{experiment.name} {subject} ({number}/{len(plan.subjects)})"
        if subject not in plan.asked:
            session.progress.end(f"{title}: taken over from the run that was cut off")
        else:
            asked = plan.asked[subject]
            document = _measure(session, experiment, subject, asked, outcomes, title)
            _write(path, document)
            session.progress.end(f"{title}: {_summary(document)}")
        yield path


def mark_rest(
    session: Session,
    experiments: Iterable[Experiment],
    allocators: Sequence[Allocator],
    only: Collection[str] | None = None,
) -> None:
    """Say of each subject without a document that the run was stopped, as far as the disk allows.

    The subjects are those of `measure_experiments`.
    """
    for experiment in experiments:
        for subject in _chosen(session, experiment, allocators, only):
            path = session.path(experiment, subject)
            try:
                if not path.exists():
                    blank = _blank(session, experiment, subject)
                    stopped = replace(blank, failures=[Failure(NOT_REACHED, _STOPPED_BEFORE)])
                    documents.write(path, stopped)
            except OSError:
                return


def _is_done(path: Path, session: Session) -> bool:
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """The processes of one document, or why there are none."""

    requests: Sequence[Request] = ()
    failures: Sequence[Failure] = ()


def _asked(
    session: Session, experiment: Experiment, subject: str, allocators: Sequence[Allocator]
) -> _Asked:
    try:
        return _Asked(_requests(session, experiment, subject, allocators))
    except NotMeasurableError as error:
        return _Asked(failures=[Failure("start", str(error))])


def _measure(
    session: Session,
    experiment: Experiment,
    subject: str,
    asked: _Asked,
    stream: Iterator[ChildOutcome],
    title: str,
) -> Document:
    blank, begin = _blank(session, experiment, subject), time.monotonic()
    before = _conditions(session)
    outcomes: list[ChildOutcome] = []
    failures = list(asked.failures)
    session.progress.begin(title, len(asked.requests))
    for outcome in islice(stream, len(asked.requests)):
        outcomes.append(outcome)
        failures += outcome.failures
        session.progress.step(len(outcomes))
    figures = outcomes_of.combined(experiment, outcomes, failures)
    if not figures and not failures:
        failures.append(Failure("start", "nothing was reported"))
    conditions = {
        "before": before,
        "after": _conditions(session),
        "notes": outcomes_of.notes(outcomes),
        "processes": len(outcomes),
        "seconds": {
            "processes": round(sum(o.seconds for o in outcomes), 3),
            **outcomes_of.spent(outcomes),
        },
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


def _requests(
    session: Session, experiment: Experiment, subject: str, allocators: Sequence[Allocator]
) -> list[Request]:
    asked = experiment.requests(subject, session.profile, allocators)
    paced = bool(asked) and experiment.paced
    pace_ns = core_speed_ns(session.results, session.stack.machine) if paced else None
    return [
        replace(
            request,
            environment=dict(request.environment),  # Read-only mappings cannot be sent.
            device=session.device,
            allocator_file=session.allocator_file,
            fixed_addresses=experiment.paced,
            alone=experiment.alone,
            pace_ns=pace_ns,
        )
        for request in asked
    ]


def _conditions(session: Session) -> Mapping[str, Any]:
    conditions: Mapping[str, Any] = read_conditions(session.device).to_json()
    return conditions


def _blank(session: Session, experiment: Experiment, subject: str) -> Document:
    """Return a document, begun now, in which nothing is measured yet."""
    return Document(
        probe=experiment.name,
        subject=subject,
        profile=session.profile.name,
        run=session.run,
        started=now(),
        seconds=0.0,
        command=rerun_command(session, experiment, subject),
        suite=__version__,
        emulated=session.stack.emulated,
        stack=session.stack.to_json(),
        conditions={},
    )


def rerun_command(session: Session, experiment: Experiment, subject: str) -> str:
    """Return the command line that measures this document alone."""
    words = ["allocmark", "emulate", "--"] if session.stack.emulated else []
    words += ["allocmark", "run", "--experiment", experiment.name, "--subject", subject]
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


def _summary(document: Document) -> str:
    measured = sum(figure.value is not None for figure in document.figures)
    text = f"{measured} figures in {document.seconds:.1f} s"
    if not document.failures:
        return text
    first = document.failures[0]
    more = f" (and {len(document.failures) - 1} more)" if len(document.failures) > 1 else ""
    return f"{text}; {first.stage}: {first.reason}{more}"
