"""asv's plugin: ``asv run`` measures by allocmark and keeps results by asv; all else is asv's own.

asv calls `setup` as it loads its plugins, which every command does that has read its configuration.
For ``run`` the command is carried out there, to its exit code. Nothing of asv is replaced.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from asv import util
from asv.commands import make_argparser
from asv.commands.continuous import Continuous
from asv.commands.find import Find
from asv.commands.publish import Publish
from asv.commands.run import Run
from asv.config import Config

from allocmark.asv import known_commits, tracked_run
from allocmark.asv.questions import discover
from allocmark.asv.selection import JUST_DISCOVER
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine.places import RECORD, results_of
from allocmark.system import command_line, interpreters

RESULTS = "ALLOCMARK_RESULTS"
"""The results folder, where it is not the configured one."""
_SKIP = {
    "skip_existing_successful": "successful",
    "skip_existing_failed": "failed",
    "skip_existing_commits": "commits",
}


def setup() -> None:
    """Carry out ``asv run``, and end the process; let asv go on with any other command."""
    if not {"run", "continuous", "find", "publish"} & {*sys.argv}:
        return
    arguments = make_argparser()[0].parse_args()
    command = getattr(arguments.func, "__self__", None)
    if command in (Continuous, Find) or (command is Run and arguments.range is not None):
        raise util.UserError("stacks are measured, not revisions: run asv without a range")
    if command is Publish:
        conf = Config.load(arguments.config and Path(arguments.config).name)
        if told := known_commits.lacking(Path(conf.results_dir)):
            print(f"allocmark: {told}", file=sys.stderr, flush=True)
    if command is Run:
        if any(spec.partition(":")[2] not in ("", "same") for spec in arguments.env_spec):
            raise util.UserError(
                f"{interpreters.variable('torch')}, {interpreters.variable('tensorflow')} name "
                "the Pythons that measure: run asv without an environment"
            )
        raise SystemExit(command_line.run(lambda: _run(arguments)))


def _run(arguments: Any) -> None:
    # asv has gone to the folder of its configuration.
    conf = Config.load(arguments.config and Path(arguments.config).name)
    with tempfile.TemporaryDirectory(prefix="allocmark-dry-") as dry:
        skip = [kind for option, kind in _SKIP.items() if getattr(arguments, option)]
        request = tracked_run.TrackedRun(
            results=Path(dry if arguments.dry_run else _results_dir(conf)).absolute(),
            profile=PROFILES["quick" if arguments.quick else "full"],
            patterns=arguments.bench or (),
            machine=arguments.machine,
            commit=arguments.set_commit_hash,
            record_samples=arguments.record_samples or arguments.append_samples,
            append_samples=arguments.append_samples,
            verbose=arguments.verbose,
            skip=["successful", "failed"] if arguments.skip_existing else skip,
        )
        if list(request.patterns) == [JUST_DISCOVER]:
            tracked_run.select(conf, request, discover(Path(conf.benchmark_dir))).save()
        else:
            tracked_run.run(conf, request)


def _results_dir(conf: Any) -> Path:
    """Return where a run saves: as given, or as configured, but not what is emulated in the record.

    asv works in the project's folder.
    """
    if given := os.environ.get(RESULTS):
        return Path(given)
    configured = Path(conf.results_dir)
    project = Path.cwd()
    return results_of(project) if configured.absolute() == project / RECORD else configured
