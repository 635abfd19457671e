"""A run that asv keeps: prepared before anything is measured, written from the documents after it.

asv drives nothing: its benchmark classes are answered here, in one process, from the documents, and
its own classes write and print what ``asv run`` would have, under the same names.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asv import util
from asv.benchmarks import Benchmarks
from asv.config import Config
from asv.console import log
from asv.repo import NoSuchNameError, get_repo

from allocmark.allocators import registry
from allocmark.asv.questions import describe, discover
from allocmark.asv.result_file import ResultFile
from allocmark.asv.selection import refuse_unknown, without_part
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import Profile
from allocmark.machine import frameworks
from allocmark.machine.frameworks import Share
from allocmark.machine.stack import read_stack
from allocmark.measure import trial
from allocmark.measure.run import Measured, Plan, Stacks, carry_out
from allocmark.system import interpreters
from allocmark.system.errors import AllocmarkError


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run in the words of ``asv run``; without `patterns` all benchmarks are read.

    `machine` and `commit` are what results are kept under instead of this machine and the newest
    revision. `skip` names existing results that are not measured again: ``successful``, ``failed``
    or those of ``commits``. `verbose`: asv's tables are printed, and a line for each document.
    """

    results: Path
    profile: Profile
    patterns: Sequence[str] = ()
    machine: str | None = None
    commit: str | None = None
    record_samples: bool = True
    append_samples: bool = False
    skip: Collection[str] = ()
    fresh: bool = False
    verbose: bool = False


def run_project(
    project: Path, results: Path, profile: Profile, *, fresh: bool, verbose: bool
) -> list[Path]:
    """Carry out a whole run of a project; return its documents. Raises as `run` does."""
    log.enable(verbose)
    with contextlib.chdir(project):  # asv's configuration names its folders from there.
        return run(Config.load(), TrackedRun(results, profile, fresh=fresh, verbose=verbose))


def run(conf: Any, request: TrackedRun) -> list[Path]:
    """Measure what the selected benchmarks read, write asv's results; return the documents.

    Raises `AllocmarkError` where asv could not keep it, before anything is measured, and otherwise
    as `carry_out` does.
    """
    try:
        return _run(conf, request)
    finally:
        log.flush()  # The last line has no end yet, and a sentence may follow.


def _run(conf: Any, request: TrackedRun) -> list[Path]:
    read_stack(frameworks.found()[0], 0)  # No GPU: the run ends before anything is tried on it.
    for framework, reason in trial.leave_out_unusable().items():
        name = interpreters.variable(framework)
        sentence = f"{framework} is left out: {reason} (to add it: {name}=a Python that has it)"
        print(sentence, file=sys.stderr, flush=True)
    questions = discover(Path(conf.benchmark_dir))
    benchmarks = select(conf, request, questions)
    wanted = _experiments([benchmarks])
    plan = Plan(
        results=request.results,
        profile=request.profile,
        experiments=[
            each for each in catalog.in_suite() if not request.patterns or each.name in wanted
        ],
        allocators=list(registry().values()),
        fresh=request.fresh,
        verbose=request.verbose,
    )
    stacks = plan.stacks()
    parts = list(_parts(conf, request, plan, stacks, benchmarks))
    if request.skip:
        left = _experiments([part.benchmarks for part in parts])
        plan = replace(plan, experiments=[e for e in plan.experiments if e.name in left])
        if not plan.experiments:
            log.info("nothing is measured: all results exist")
            return []

    def save(measured: Measured) -> None:
        benchmarks.save()
        log.set_nitems(sum(len(part.benchmarks) for part in parts))
        for part in parts:
            if request.verbose:
                log.info(f"For {conf.project} commit {part.title}: {part.file.name}")
            with log.indent():
                part.file.write(
                    part.benchmarks,
                    questions,
                    measured.get(part.share, ()),
                    record_samples=request.record_samples,
                    append_samples=request.append_samples,
                    shown=request.verbose,
                )

    log.flush()  # asv leaves its cursor at the end of a line, and progress has lines of its own.
    return carry_out(plan, stacks, save)


def select(conf: Any, request: TrackedRun, questions: Mapping[str, Any]) -> Any:
    """Return asv's benchmarks, those selected. Raises `AllocmarkError` for an unknown name."""
    conf.results_dir = str(request.results)
    described = [describe(question) for question in questions.values()]
    refuse_unknown(request.patterns, {one["name"]: one["params"] for one in described})
    return Benchmarks(conf, described, regex=list(request.patterns))


def _experiments(selections: Sequence[Any]) -> set[str]:
    return {b["setup_cache_key"] for benchmarks in selections for b in benchmarks.values()}


@dataclass(frozen=True, slots=True)
class _Part:
    """What is kept of one stack at one revision: its file, and the benchmarks that have cells."""

    share: Share
    file: ResultFile
    benchmarks: Any
    title: str


def _parts(
    conf: Any, request: TrackedRun, plan: Plan, stacks: Stacks, benchmarks: Any
) -> Iterator[_Part]:
    for commit, title, date in _commits(conf, request.commit):
        for share, stack in stacks.items():
            machine = request.machine or stack.machine
            file = ResultFile(request.results, stack, plan.profile.name, commit, date, machine)
            absent = without_part(plan, share, benchmarks)
            left_out = absent | file.existing(benchmarks, request.skip)
            yield _Part(share, file, benchmarks.filter_out(left_out), title)


def _commits(conf: Any, name: str | None) -> list[tuple[str, str, int]]:
    """Return hash, name and date (milliseconds since 1970) of the revisions results belong to.

    Raises `AllocmarkError` where there is no repository, or not that revision in it.
    """
    try:
        repo = get_repo(conf)
        hashes = {repo.get_hash_from_name(n) for n in ([name] if name else conf.branches)}
        return [(h, repo.get_decorated_hash(h, 8), repo.get_date(h)) for h in sorted(hashes)]
    except (util.UserError, util.ProcessError) as error:
        raise AllocmarkError(f"asv cannot tell which revision this is: {error}") from error
    except NoSuchNameError as error:
        raise AllocmarkError(f"unknown revision {error}: asv keeps results by revisions") from error
