"""What ``allocmark run`` does: options into a plan, the run, its report, and how it came out.

Without a filter it is a whole run of a project, which asv tracks. Documents that are named are
measured alone and join the run that the folder holds.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from allocmark.allocators import registry
from allocmark.commands.run_summary import summarize
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.machine.places import CONFIG, found_project, reports_beside, results_folder
from allocmark.measure.run import Plan, carry_out
from allocmark.measure.run_outcome import raise_if_nothing_measured
from allocmark.measure.stopping import RunStoppedError, stoppable
from allocmark.report import check_extra
from allocmark.system.errors import DISK_FULL, AllocmarkError, DiskFullError, lookup

if TYPE_CHECKING:
    from allocmark.report.page import Part


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user requests. Without a filter (`experiments`, `subjects`, a file): all of it."""

    profile: str = "full"
    experiments: Sequence[str] = ()
    subjects: Sequence[str] = ()
    allocator_file: Path | None = None
    results: Path | None = None
    fresh: bool = False
    verbose: bool = False

    @property
    def filtered(self) -> bool:
        """Whether only some documents are requested."""
        return bool(self.experiments or self.subjects or self.allocator_file)

    @property
    def names_documents(self) -> bool:
        """Whether single documents are named, as by the command that each of them prints."""
        return bool(self.experiments and self.subjects)


def run(options: RunOptions) -> None:
    """Measure, write the report, say what came out; standard output has the path of its page.

    Raises `AllocmarkError` for names that do not exist, where the run was stopped, and where
    nothing of it could be measured, or of an experiment that is named or that the user can mend.
    """
    profile = lookup("profile", options.profile, PROFILES)
    profile = replace(profile, patient=options.names_documents)
    results = results_folder(options.results)
    check_extra()
    report = reports_beside(results)
    if report.exists() and not report.is_dir():
        raise AllocmarkError(f"{report} is no folder, and the report goes there: move it away")
    with stoppable():
        if options.filtered:
            plan = _filtered(options, profile, results)
            paths = carry_out(plan, plan.stacks())
        else:
            paths = _whole(options, profile, results)
        page, front = _reported(results)
        raise_if_nothing_measured(paths, options.experiments, page, each=options.names_documents)
        summarize(front, paths, page, None if options.filtered else profile)


def _whole(options: RunOptions, profile: Profile, results: Path) -> list[Path]:
    project = found_project()
    if project is None:
        raise AllocmarkError(
            f"there is no {CONFIG} here or above: run this in a clone of allocmark, "
            "or say where results go (--results) and what to measure (--experiment)"
        )
    from allocmark.asv.tracked_run import run_project  # Seconds, which a part need not wait for.

    return run_project(project, results, profile, fresh=options.fresh, verbose=options.verbose)


def _reported(results: Path) -> tuple[Path, Part]:
    command = shlex.join(["allocmark", "report", "--results", str(results)])
    again = f"write the report: {command}"
    try:
        from allocmark.report import write_pages

        return write_pages(results, reports_beside(results))
    except KeyboardInterrupt as error:
        raise RunStoppedError(f"stopped: all is measured and saved; {again}") from error
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        what = f"{error.filename or 'a file'} could not be written, all that was measured is saved"
        raise DiskFullError(what, again) from error


def _filtered(options: RunOptions, profile: Profile, results: Path) -> Plan:
    known = registry(options.allocator_file)
    return Plan(
        results=results,
        profile=profile,
        experiments=[catalog.experiment(name) for name in options.experiments]
        or catalog.in_suite(),
        allocators=list(known.values()),
        subjects=_subjects(options, set(known) - set(registry())),
        allocator_file=options.allocator_file,
        part=_part(options),
        fresh=options.fresh,
        verbose=options.verbose,
    )


def _part(options: RunOptions) -> str:
    """Return what is requested in words that do not depend on the order of its names."""
    words = [f"--experiment={name}" for name in sorted(set(options.experiments))]
    words += [f"--subject={name}" for name in sorted(set(options.subjects))]
    if options.allocator_file is not None:  # Edited since, it would be something else.
        content = hashlib.sha256(options.allocator_file.read_bytes()).hexdigest()[:16]
        words.append(f"--allocator-file={options.allocator_file.name}:{content}")
    return shlex.join(words)


def _subjects(options: RunOptions, own: set[str]) -> list[str] | None:
    """Return the subjects requested: those named, else those of the user's file, else all."""
    known = registry(options.allocator_file)
    every = replace(PROFILES["full"], patient=options.names_documents)
    of_each = {each.name: each.subjects(list(known.values()), every) for each in catalog.in_suite()}
    possible = dict.fromkeys(known) | dict.fromkeys(name for s in of_each.values() for name in s)
    for name in options.subjects:
        lookup("allocator or subject", name, possible)
    for experiment in options.experiments if options.subjects else ():
        if not set(options.subjects) & set(of_each[experiment]):
            raise AllocmarkError(
                f"{experiment} is not measured of {', '.join(options.subjects)}, but of "
                f"{', '.join(of_each[experiment])}: name one of these, or leave it out"
            )
    return list(options.subjects) or sorted(own) or None
