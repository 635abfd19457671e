"""asv's environment of a stack: the interpreter that runs asv, and what is seen of measuring."""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from asv import util
from asv.console import log
from asv.environment import Environment
from asv.results import get_filename

from allocmark.asv import in_process
from allocmark.asv.bridge import FRAMEWORK, PROFILE
from allocmark.asv.exit import StoppedBySentence, one_sentence
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine import frameworks
from allocmark.machine.identity import identity_of, machine_facts, refuse_to_mix
from allocmark.machine.stack import Stack, read_stack
from allocmark.measure.stopping import RunStoppedError
from allocmark.system import progress
from allocmark.system.errors import EXIT_BAD_INPUT

_POLL_S = 0.2
REQUIREMENT = "framework"
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
        with one_sentence():
            self.share = frameworks.share(named.pop(REQUIREMENT, None))
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
            with one_sentence():
                refuse_to_mix(self._results / file, self.requirements | self._machine)

    def run(self, args: list[str], **kwargs: Any) -> Any:
        """Run one of asv's own scripts, and show what is measured meanwhile."""
        if in_process.is_reading(args, kwargs.get("cwd")):
            return in_process.read(args, kwargs["cwd"])
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
                with suppress(OSError):
                    # asv has left its cursor at the end of a line of its own.
                    sys.stderr.write(text if shown else "\n" + text)
                    sys.stderr.flush()
                shown = True
