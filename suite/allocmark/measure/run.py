"""What ``allocmark run`` does: a whole run through asv, or the named documents directly.

asv is started in a process of its own, as a user would start it; its plugin measures. Documents
asked for by name are measured here and join the run that the folder holds.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from allocmark.allocators import registry
from allocmark.asv import process as asv_process
from allocmark.asv.bridge import FRESH, RESULTS
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.machine import frameworks
from allocmark.machine.places import CONFIG, found_project, reports_beside, results_folder
from allocmark.machine.stack import read_stack
from allocmark.measure.doctor import disturbances
from allocmark.measure.run_outcome import refuse_losses
from allocmark.measure.session import (
    Session,
    folder_of,
    mark_rest,
    measure_experiments,
    subjects_of,
)
from allocmark.measure.stopping import STOPPED, RunStoppedError, stoppable
from allocmark.schema import documents, run_state
from allocmark.schema.run_state import RunState
from allocmark.store import run_lock
from allocmark.system.errors import (
    DISK_FULL,
    EXIT_BAD_INPUT,
    EXIT_FINE,
    EXIT_UNCLEAR,
    AllocmarkError,
    DiskFullError,
    UnknownNameError,
)
from allocmark.system.lifetime import end_with_parent
from allocmark.system.progress import shown


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for. Without a filter (`experiments`, `subjects`, a file): all of it."""

    profile: str = "full"
    experiments: Sequence[str] = ()
    subjects: Sequence[str] = ()
    allocator_file: Path | None = None
    results: Path | None = None
    fresh: bool = False

    @property
    def filtered(self) -> bool:
        """Whether only some documents are asked for."""
        return bool(self.experiments or self.subjects or self.allocator_file)

    @property
    def names_documents(self) -> bool:
        """Whether single documents are asked for, as by the command that each of them prints."""
        return bool(self.experiments and self.subjects)


def run(options: Options) -> Path:
    """Measure, write the report, and return the path of its page.

    Raises `AllocmarkError` for names that do not exist, where the run was stopped, and where
    nothing of it could be measured, or of an experiment that is named or that the user can mend.
    """
    profile = replace(profile_of(options.profile), patient=options.names_documents)
    results = results_folder(options.results)
    report = reports_beside(results)
    if report.exists() and not report.is_dir():
        raise AllocmarkError(f"{report} is no folder, and the report goes there: move it away")
    with stoppable(signal.SIGINT):
        if options.filtered:
            paths = _run_directly(options, profile, results)
        else:
            paths = _run_asv(_project(), options, profile, results)
        page = _reported(results)
    refuse_losses(paths, options.experiments, page, each=options.names_documents)
    return page


def _reported(results: Path) -> Path:
    try:
        from allocmark.report import write_report  # Seconds, which the start need not wait for.

        return write_report(results, reports_beside(results))
    except KeyboardInterrupt as error:
        raise _not_reported(results) from error
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        what = f"{error.filename or 'a file'} could not be written, all that was measured is saved"
        raise DiskFullError(what, _report_command(results)) from error


def _not_reported(results: Path) -> RunStoppedError:
    return RunStoppedError(f"stopped: all is measured and saved; {_report_command(results)}")


def _report_command(results: Path) -> str:
    command = ["allocmark", "report", "--results", str(results)]
    return f"write the report: {shlex.join(command)}"


def profile_of(name: str) -> Profile:
    """Return a profile. Raises `UnknownNameError`."""
    if name not in PROFILES:
        raise UnknownNameError("profile", name, list(PROFILES))
    return PROFILES[name]


def _project() -> Path:
    """Return the project's folder. Raises `AllocmarkError` outside of one."""
    found = found_project()
    if found is not None:
        return found
    raise AllocmarkError(
        f"there is no {CONFIG} here or above: run this in a clone of allocmark, "
        "or say where results go (--results) and what to measure (--experiment)"
    )


def _run_asv(project: Path, options: Options, profile: Profile, results: Path) -> list[Path]:
    """Measure everything by asv; return the documents that there are now."""
    command = [sys.executable, "-m", asv_process.__name__, "run", "--record-samples"]
    if options.profile == "quick":
        command.append("--quick")
    environment = {**os.environ, RESULTS: str(results)}
    if options.fresh:
        environment[FRESH] = "1"
    process = subprocess.Popen(
        command,
        cwd=project,
        env=environment,
        preexec_fn=end_with_parent,  # noqa: PLW1509 - no threads run yet
    )
    interrupted = _was_interrupted(process)
    if process.returncode != EXIT_FINE:
        if interrupted and process.returncode != RunStoppedError.exit_code:
            raise RunStoppedError(STOPPED)  # asv was not up yet, and has not said it.
        raise AsvEndedError(process.returncode)
    if interrupted:
        raise _not_reported(results)  # It had measured all.
    stacks = [read_stack(framework, 0) for framework in frameworks.found()]
    folders = [folder_of(results, stack, profile) for stack in stacks]
    return [path for folder in folders for path in sorted(folder.glob(f"*{documents.SUFFIX}"))]


def _was_interrupted(process: subprocess.Popen[bytes]) -> bool:
    """Wait until asv has ended; return whether Ctrl-C was pressed: asv was told too."""
    interrupted = False
    try:
        _load_report()
    except KeyboardInterrupt:
        interrupted = True  # Not tried again: what was half imported cannot be.
    while process.returncode is None:
        try:
            process.wait()
        except KeyboardInterrupt:
            interrupted = True
    return interrupted


def _load_report() -> None:
    """Import what the report needs while asv measures: seconds, most of all the first time."""
    for name in ("allocmark.report.build", "seaborn", "matplotlib.backends.backend_svg"):
        importlib.import_module(name)


class AsvEndedError(AllocmarkError):
    """asv ended by itself; where it was stopped or refused to run, the plugin has said why."""

    def __init__(self, code: int) -> None:
        super().__init__(f"asv run ended with exit code {code}: no report was written")
        self.exit_code = code if code > 0 else RunStoppedError.exit_code
        self.is_reported = code in (EXIT_BAD_INPUT, EXIT_UNCLEAR)


def _run_directly(options: Options, profile: Profile, results: Path) -> list[Path]:
    known = registry(options.allocator_file)
    allocators = list(known.values())
    chosen = [catalog.experiment(name) for name in options.experiments or catalog.NAMES]
    only = _subjects(options, set(known) - set(registry()))
    stacks = {
        share: read_stack(share.framework, 0)
        for share in frameworks.shares()
        if any(
            only is None or subject in only
            for experiment in chosen
            for subject in subjects_of(share, experiment, allocators, profile)
        )
    }
    asked = _asked(options)
    paths: list[Path] = []
    folders = [folder_of(results, stack, profile) for stack in stacks.values()]
    with run_lock.held(folders), shown() as progress, stoppable():
        parts = _begin_parts(folders, profile, results, asked, options.fresh)
        sessions = [
            Session(
                *(results, stack, profile, state.id, progress),
                takes_over=carried_on,
                since=state.parts[asked],
                allocator_file=options.allocator_file,
                share=share,
            )
            for (share, stack), (state, carried_on) in zip(stacks.items(), parts, strict=True)
        ]
        for sentence in disturbances():
            progress.end(sentence)
        try:
            for session in sessions:
                paths += measure_experiments(session, chosen, allocators, only)
        except (KeyboardInterrupt, RunStoppedError):
            for session in sessions:
                mark_rest(session, chosen, allocators, only)
            raise
        for folder in folders:
            run_state.finish_part(folder, asked)
    if not paths:
        raise AllocmarkError(
            f"nothing was measured: the {profile.name} profile has no such document, "
            "see `allocmark list`"
        )
    return paths


def _begin_parts(
    folders: Sequence[Path], profile: Profile, results: Path, asked: str, fresh: bool
) -> list[tuple[RunState, bool]]:
    """Return the run that each folder's documents belong to, and whether it is carried on."""
    others = [
        folder_of(results, read_stack(framework, 0), profile) for framework in frameworks.found()
    ]
    return [run_state.begin_part(folder, asked, others, fresh) for folder in folders]


def _asked(options: Options) -> str:
    """Return what is asked for in words that do not depend on the order it was asked in."""
    words = [f"--experiment={name}" for name in sorted(set(options.experiments))]
    words += [f"--subject={name}" for name in sorted(set(options.subjects))]
    if options.allocator_file is not None:  # Edited since, it would be something else.
        content = hashlib.sha256(options.allocator_file.read_bytes()).hexdigest()[:16]
        words.append(f"--allocator-file={options.allocator_file.name}:{content}")
    return shlex.join(words)


def _subjects(options: Options, own: set[str]) -> list[str] | None:
    """Return the subjects asked for: those named, else those of the user's file, else all."""
    known = registry(options.allocator_file)
    every = replace(PROFILES["full"], patient=options.names_documents)
    of_each = {
        name: catalog.experiment(name).subjects(list(known.values()), every)
        for name in catalog.NAMES
    }
    possible = dict.fromkeys(known) | dict.fromkeys(name for s in of_each.values() for name in s)
    for name in options.subjects:
        if name not in possible:
            raise UnknownNameError("allocator or subject", name, list(possible))
    for experiment in options.experiments if options.subjects else ():
        if not set(options.subjects) & set(of_each[experiment]):
            raise AllocmarkError(
                f"{experiment} is not measured of {', '.join(options.subjects)}, but of "
                f"{', '.join(of_each[experiment])}: name one of these, or leave it out"
            )
    return list(options.subjects) or sorted(own) or None
