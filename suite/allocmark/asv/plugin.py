"""What asv 0.6 must be told to measure stacks instead of revisions.

- The machine is the GPU, its facts come from the driver, and nobody is asked anything.
- There is an environment for each framework, served by the running interpreter, whose children
  are started with the framework's own; driver, CUDA and framework versions name it, so a changed
  driver starts a new result file.
- A run has an identity and an end, so that one that was cut off is carried on.

asv has no hooks for these: they are set on its classes, which is why its version is pinned.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from asv import util
from asv.benchmarks import Benchmarks
from asv.commands import run as asv_run
from asv.commands.run import Run
from asv.console import log
from asv.machine import Machine, MachineCollection

from allocmark.allocators import registry
from allocmark.asv.bridge import FRESH, PROFILE, RESULTS, RUN
from allocmark.asv.environment import REQUIREMENT, StackEnvironment, current_stack
from allocmark.asv.exit import ignore_interrupts, one_sentence
from allocmark.asv.selection import refuse_unknown, skipped
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.machine import frameworks
from allocmark.machine.frameworks import Share
from allocmark.machine.identity import machine_facts
from allocmark.machine.places import RECORD, results_of
from allocmark.machine.stack import Stack
from allocmark.measure import trial
from allocmark.measure.core_speed import kept_pace
from allocmark.measure.doctor import disturbances
from allocmark.measure.session import Session, folder_of, mark_rest
from allocmark.measure.stopping import STOPPED, RunStoppedError
from allocmark.schema import run_state
from allocmark.store import run_lock
from allocmark.system import interpreters, progress

MACHINE_FILE = Path("build") / "asv-machine.json"
"""Inside the project: cluster nodes share the home folder where asv keeps this by default."""


def _load_machine(
    cls: type[MachineCollection], machine_name: str, _path: str | None = None
) -> dict[str, str]:
    """Return the facts of this machine instead of a file's; asv asks where it finds none."""
    with one_sentence():
        return {**machine_facts(current_stack()), "machine": machine_name}


def _machine_name(cls: type[Machine]) -> str:
    with one_sentence():
        return current_stack().machine


def _machine_file() -> str:
    MACHINE_FILE.parent.mkdir(exist_ok=True)
    return str(MACHINE_FILE)


def _measured(original: Callable[..., int | None]) -> Callable[..., int | None]:
    """Return asv's ``run`` within a run of the suite, which it begins and ends."""

    def run(cls: type[Run], conf: Any, **kwargs: Any) -> int | None:
        if kwargs.get("range_spec") is not None:
            raise util.UserError("stacks are measured, not revisions: run asv without a range")
        profile = PROFILES["quick" if kwargs.get("quick") else "full"]
        conf.results_dir = _results_dir(conf)
        with (
            tempfile.TemporaryDirectory(prefix="allocmark-dry-") as dry,
            one_sentence(),
            ExitStack() as locks,
        ):
            results = Path(dry if kwargs.get("dry_run") else conf.results_dir).absolute()
            current_stack()  # Without a GPU the run ends here, before anything is tried on it.
            _tell_left_out()
            stacks = {share: current_stack(share.framework) for share in frameworks.shares()}
            conf.matrix = {"req": {REQUIREMENT: [share.framework for share in stacks]}}
            folders = [folder_of(results, stack, profile) for stack in stacks.values()]
            locks.enter_context(run_lock.held(folders))
            for machine in {stack.machine for stack in stacks.values()}:
                kept_pace(results, machine)  # A damaged one ends the run before its minutes.
            for sentence in disturbances():
                log.info(sentence)
            state = run_state.begin(folders, fresh=bool(os.environ.get(FRESH)))
            os.environ |= {RESULTS: str(results), PROFILE: profile.name, RUN: state.id}
            try:
                code = original(conf=conf, **kwargs)
                ignore_interrupts()
            except (KeyboardInterrupt, util.UserError) as error:
                if isinstance(error, util.UserError) and str(error) != "Interrupted.":
                    raise
                ignore_interrupts()
                if not kwargs.get("bench"):
                    for share, stack in stacks.items():
                        _mark_rest(results, share, stack, profile, state.id)
                raise RunStoppedError(STOPPED) from None
            run_state.finish(folders)
            return code

    return run


def _results_dir(conf: Any) -> str:
    """Return where a run saves: as told, or as configured, but not what is emulated in the record.

    asv works in the project's folder.
    """
    if told := os.environ.get(RESULTS):
        return told
    project = Path.cwd()
    configured = Path(conf.results_dir)
    if configured.absolute() != project / RECORD:
        return str(configured)
    return str(results_of(project).relative_to(project))


def _tell_left_out() -> None:
    for framework, reason in trial.leave_out_unusable().items():
        name = interpreters.variable(framework)
        log.info(f"{framework} is left out: {reason} (to add it: {name}=a Python that has it)")


def _each_its_own(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return asv's ``run_benchmarks`` without those that have no cell in an environment."""

    def run_benchmarks(benchmarks: Any, env: StackEnvironment, *args: Any, **kwargs: Any) -> Any:
        left_out = skipped(env.share, benchmarks, env.profile)
        for _ in left_out:
            log.step()
        return original(benchmarks.filter_out(left_out), env, *args, **kwargs)

    return run_benchmarks


def _selected(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return asv's ``Benchmarks.discover``, which refuses what names no benchmark."""

    def discover(
        cls: type[Benchmarks],
        conf: Any,
        *places: Any,
        regex: str | list[str] | None = None,
        check: bool = False,
    ) -> Any:
        every = original(conf, *places, check=check)
        with one_sentence():
            refuse_unknown([regex] if isinstance(regex, str) else regex or [], every)
        return cls(conf, list(every.values()), regex=regex)

    return discover


def _mark_rest(results: Path, share: Share, stack: Stack, profile: Profile, run: str) -> None:
    """Say in a document of each subject that has none that the run was stopped."""
    session = Session(results, stack, profile, run, progress.Lines(sys.stderr), share=share)
    chosen = [catalog.experiment(name) for name in catalog.NAMES]
    mark_rest(session, chosen, list(registry().values()))


def setup() -> None:
    """Tell asv; it calls this as it loads the plugin. Reads no GPU: `asv show` needs none."""
    Machine.get_unique_machine_name = classmethod(_machine_name)
    MachineCollection.get_machine_file_path = staticmethod(_machine_file)
    MachineCollection.load = classmethod(_load_machine)
    Run.run = classmethod(_measured(Run.run))
    Benchmarks.discover = classmethod(_selected(Benchmarks.discover))
    asv_run.run_benchmarks = _each_its_own(asv_run.run_benchmarks)
