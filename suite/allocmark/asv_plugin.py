"""What asv 0.6 must be told to measure stacks instead of revisions.

- The machine is the GPU, its facts come from the driver, and nobody is asked anything.
- There is an environment for each framework, served by the running interpreter, whose children
  are started with the framework's own; driver, CUDA and framework versions name it, so a changed
  driver starts a new result file.
- A run has an identity and an end, so that one that was cut off is carried on.

asv has no hooks for these: they are set on its classes, which is why its version is pinned.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from asv import util
from asv.commands import run as asv_run
from asv.commands.run import Run
from asv.console import log
from asv.environment import Environment
from asv.machine import Machine, MachineCollection
from asv.results import get_filename

from allocmark import asv_reading, frameworks, interpreters, progress
from allocmark.allocators import registry
from allocmark.asv_selection import skipped
from allocmark.doctor import disturbances
from allocmark.errors import EXIT_BAD_INPUT, AllocmarkError, of_system
from allocmark.frameworks import Share
from allocmark.identity import identity_of, machine_facts, refuse_to_mix
from allocmark.places import RECORD, results_of
from allocmark.probes import experiments, run_lock, run_state, trial
from allocmark.probes.experiment import PROFILES, Profile
from allocmark.probes.machine_pace import kept_pace
from allocmark.probes.session import (
    Session,
    folder_of,
    mark_rest,
)
from allocmark.probes.stopping import STOPPED, RunStoppedError
from allocmark.sentences import sentence
from allocmark.stack import Stack, read_stack
from allocmark.tracking import FRAMEWORK, FRESH, PROFILE, RESULTS, RUN

MACHINE_FILE = Path("build") / "asv-machine.json"
"""Inside the project: cluster nodes share the home folder where asv keeps this by default."""
_POLL_S = 0.2


_FRAMEWORK = "framework"
"""The requirement by which asv tells its environments apart before they have their names."""


@functools.cache
def current_stack(framework: str | None = None) -> Stack:
    """Return this machine's stack, the first framework's by default, read once.

    Raises `AllocmarkError`.
    """
    return read_stack(framework or frameworks.found()[0], 0)


class StackEnvironment(Environment):  # type: ignore[misc]
    """The interpreter that runs asv, named by the one stack that it measures."""

    tool_name = "stack"

    def __init__(
        self,
        conf: Any,
        python: str,
        requirements: Mapping[str, str],
        tagged_env_vars: Mapping[tuple[str, str], str],
    ) -> None:
        self._results = Path(conf.results_dir)
        named: dict[str, str | None] = dict(requirements)
        with _one_sentence():
            self.share = frameworks.share(named.pop(_FRAMEWORK, None))
            self.profile = PROFILES[os.environ.get(PROFILE, "full")]
            self._stack = current_stack(self.share.framework)
            self._machine = machine_facts(self._stack)
            identity = identity_of(self._stack, self.profile.name)
        # asv reads it while it makes up the name, before it sets it.
        self._requirements = {**named, **identity}
        super().__init__(conf, self._stack.python, self._requirements, tagged_env_vars)

    @classmethod
    def matches(cls, python: str) -> bool:
        """Match every specifier: there is one interpreter, the running one."""
        return True

    @property
    def installed_commit_hash(self) -> None:
        """Nothing is installed: the suite measures what it is started with."""
        return None

    def check_presence(self) -> bool:
        """Return that the environment is there."""
        return True

    def create(self) -> None:
        """Create nothing."""

    def _setup(self) -> None:
        pass

    def can_install_project(self) -> bool:
        """Return that asv cannot choose a revision to measure."""
        return False

    def install_project(self, conf: Any, repo: Any, commit_hash: str | None = None) -> None:
        """Install nothing; refuse a result file of another stack that has this one's name."""
        if commit_hash is not None:
            file = get_filename(self._stack.machine, commit_hash, self.name)
            with _one_sentence():
                refuse_to_mix(self._results / file, self.requirements | self._machine)

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run one of asv's own scripts, and show what is measured meanwhile."""
        if asv_reading.is_reading(args, kwargs.get("cwd")):
            return asv_reading.read(args, kwargs["cwd"])
        # asv drops PYTHONPATH unless told so by this name; the suite may be found through it.
        env = dict(kwargs.pop("env", os.environ))
        if env.get("PYTHONPATH"):
            env.setdefault("ASV_PYTHONPATH", env["PYTHONPATH"])
        kwargs["env"] = env
        env[FRAMEWORK] = self.share.framework
        command = [sys.executable, *args]
        if "setup_cache" not in args:
            return util.check_output(command, **kwargs)
        with _followed() as file:
            env[progress.VARIABLE] = str(file)
            out, err, code = util.check_output(command, **kwargs)
        if code != 0:
            last = out.strip().rpartition("\n")[2]
            if code in (EXIT_BAD_INPUT, RunStoppedError.exit_code):
                raise StoppedBySentence(last, code)
            log.error(last)
        return out, err, code


def _ignore_interrupts() -> None:
    """Let asv come to the end that it is close to: a further Ctrl-C would show a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class StoppedBySentence(SystemExit):
    """Ends asv with one sentence and an exit code of the suite."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(code)
        _ignore_interrupts()
        log.flush()
        print(f"\n{sentence}", file=sys.stderr)


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except AllocmarkError as error:
        raise StoppedBySentence(sentence(error), error.exit_code) from None
    except OSError as error:
        told = of_system(error)
        if told is None:
            raise
        raise StoppedBySentence(sentence(told), told.exit_code) from None


@contextmanager
def _followed() -> Iterator[Path]:
    """Yield a file; what is appended to it is shown on standard error as it comes."""
    ended = threading.Event()
    with tempfile.TemporaryDirectory(prefix="allocmark-") as folder:
        file = Path(folder) / "progress"
        file.touch()
        thread = threading.Thread(target=_follow, args=(file, ended), daemon=True)
        thread.start()
        try:
            yield file
        finally:
            ended.set()
            thread.join()


def _follow(file: Path, ended: threading.Event) -> None:
    with file.open(encoding="utf-8") as stream:
        last = False
        shown = False
        while not last:
            last = ended.wait(_POLL_S)
            text = stream.read()
            if text:
                # asv has left its cursor at the end of a line of its own.
                sys.stderr.write(text if shown else "\n" + text)
                sys.stderr.flush()
                shown = True


def _load_machine(
    cls: type[MachineCollection], machine_name: str, _path: str | None = None
) -> dict[str, str]:
    """Return the facts of this machine instead of a file's; asv asks where it finds none."""
    with _one_sentence():
        return {**machine_facts(current_stack()), "machine": machine_name}


def _machine_name(cls: type[Machine]) -> str:
    with _one_sentence():
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
            _one_sentence(),
            ExitStack() as locks,
        ):
            results = Path(dry if kwargs.get("dry_run") else conf.results_dir).absolute()
            current_stack()  # Without a GPU the run ends here, before anything is tried on it.
            _tell_left_out()
            stacks = {share: current_stack(share.framework) for share in frameworks.shares()}
            conf.matrix = {"req": {_FRAMEWORK: [share.framework for share in stacks]}}
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
                _ignore_interrupts()
            except (KeyboardInterrupt, util.UserError) as error:
                if isinstance(error, util.UserError) and str(error) != "Interrupted.":
                    raise
                _ignore_interrupts()
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


def _mark_rest(results: Path, share: Share, stack: Stack, profile: Profile, run: str) -> None:
    """Say in a document of each subject that has none that the run was stopped."""
    session = Session(results, stack, profile, run, progress.Lines(sys.stderr), share=share)
    chosen = [experiments.experiment(name) for name in experiments.NAMES]
    mark_rest(session, chosen, list(registry().values()))


def setup() -> None:
    """Tell asv; it calls this as it loads the plugin. Reads no GPU: `asv show` needs none."""
    Machine.get_unique_machine_name = classmethod(_machine_name)
    MachineCollection.get_machine_file_path = staticmethod(_machine_file)
    MachineCollection.load = classmethod(_load_machine)
    Run.run = classmethod(_measured(Run.run))
    asv_run.run_benchmarks = _each_its_own(asv_run.run_benchmarks)
