"""The one way a run is carried out, whoever starts it: ``allocmark run``, ``asv run`` or a night.

Under the lock of its folders: what would spoil it is looked at, a run is begun or one that was cut
off is carried on, the documents are measured, what is made of them is saved (asv's result files),
and the run is finished. Stopped anywhere before that it has no end, and the same command goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.allocators.base import Allocator
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.machine import frameworks
from allocmark.machine.frameworks import Share
from allocmark.machine.places import RECORD, found_project
from allocmark.machine.stack import Stack, read_stack
from allocmark.measure.core_speed import recorded_core_speed_ns
from allocmark.measure.doctor import disturbances
from allocmark.measure.earlier_seconds import earlier_seconds
from allocmark.measure.progress import Progress, shown
from allocmark.measure.session import (
    Session,
    folder_of,
    mark_rest,
    measure_experiments,
    planned,
    subjects_of,
)
from allocmark.measure.stopping import RunStoppedError, stoppable
from allocmark.schema import run_state
from allocmark.store import columns, run_lock
from allocmark.system.errors import AllocmarkError

Stacks = Mapping[Share, Stack]
Measured = Mapping[Share, Sequence[Path]]
"""The documents of each stack, in the order they were measured."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures, and where it saves.

    `subjects` of the experiments, None: all of them. `part` says in words what a filtered run was
    requested to measure, which joins the run that a folder holds; None: it is a run of its own.
    `fresh` measures again what one that was cut off has finished. `verbose`: each document has a
    line, not each experiment alone.
    """

    results: Path
    profile: Profile
    experiments: Sequence[Experiment]
    allocators: Sequence[Allocator]
    subjects: Collection[str] | None = None
    allocator_file: Path | None = None
    part: str | None = None
    fresh: bool = False
    verbose: bool = False

    def stacks(self) -> Stacks:
        """Return the stacks under which any of it is measured. Raises `AllocmarkError`."""
        return {
            share: read_stack(share.framework, 0)
            for share in frameworks.shares()
            if any(self.subjects_of(share, experiment) for experiment in self.experiments)
        }

    def subjects_of(self, share: Share, experiment: Experiment) -> list[str]:
        """Return the subjects of an experiment that are measured under one stack."""
        found = subjects_of(share, experiment, self.allocators, self.profile)
        return [name for name in found if self.subjects is None or name in self.subjects]


def carry_out(
    plan: Plan, stacks: Stacks, save: Callable[[Measured], None] = lambda measured: None
) -> list[Path]:
    """Measure, `save` what is made of the documents, finish the run; return all documents.

    Raises `RunStoppedError` after Ctrl-C or SIGTERM and where the disk is full: what was finished
    is saved, and what was not reached says so. Raises `AllocmarkError` where there is nothing to
    measure, another run measures there, or the machine's core speed on record is damaged.
    """
    folders = [folder_of(plan.results, stack, plan.profile) for stack in stacks.values()]
    with run_lock.held(folders), stoppable():
        with shown(verbose=plan.verbose) as progress:
            if any(experiment.scales_to_core_speed for experiment in plan.experiments):
                for machine in {stack.machine for stack in stacks.values()}:
                    recorded_core_speed_ns(plan.results, machine)  # Damaged: before its minutes.
            sessions = _begin(plan, stacks, folders, progress)
            for sentence in disturbances():
                progress.note(sentence)
            measured = _measure(plan, sessions, progress)
        save(measured)
        for folder in folders:
            if plan.part is not None:
                run_state.finish_part(folder, plan.part)
        if plan.part is None:
            run_state.finish(folders)
        for folder in folders:
            columns.make(folder)
    paths = [path for documents in measured.values() for path in documents]
    if not paths:
        raise AllocmarkError(
            f"nothing was measured: the {plan.profile.name} profile has no such document, "
            "see `allocmark list`"
        )
    return paths


def _begin(
    plan: Plan, stacks: Stacks, folders: Sequence[Path], progress: Progress
) -> dict[Share, Session]:
    """Begin a run, or carry on one that was cut off, in the folder of each stack."""
    if plan.part is None:
        run = run_state.begin(folders, plan.fresh).id
        joined = [(run, True, "")] * len(folders)
    else:
        peers = [
            folder_of(plan.results, read_stack(framework, 0), plan.profile)
            for framework in frameworks.found()
        ]
        parts = [run_state.begin_part(f, plan.part, peers, plan.fresh) for f in folders]
        joined = [(state.id, carried_on, state.parts[plan.part]) for state, carried_on in parts]
    return {
        share: Session(
            results=plan.results,
            stack=stack,
            profile=plan.profile,
            run=run,
            progress=progress,
            takes_over=takes_over,
            since=since,
            allocator_file=plan.allocator_file,
            share=share,
            allocators=plan.allocators,
            only=plan.subjects,
        )
        for (share, stack), (run, takes_over, since) in zip(stacks.items(), joined, strict=True)
    }


def _measure(plan: Plan, sessions: Mapping[Share, Session], progress: Progress) -> Measured:
    chosen = plan.experiments
    # What is measured elsewhere takes about as long: a first run has an estimate too.
    project = found_project()
    folders = [plan.results, *([project / RECORD] if project else [])]
    earlier = earlier_seconds(folders, plan.profile.name)
    several = len(sessions) > 1
    parts = [
        (share.framework if several else "", planned(session, chosen, earlier))
        for share, session in sessions.items()
    ]
    progress.plan(parts)
    try:
        return {s: list(measure_experiments(session, chosen)) for s, session in sessions.items()}
    except (KeyboardInterrupt, RunStoppedError):
        for session in sessions.values():
            mark_rest(session, chosen)
        raise
