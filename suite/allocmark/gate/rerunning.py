"""Measures documents again, in a folder of their own, by the same command as a person would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from allocmark.gate.gating import Rerun
from allocmark.machine.emulated import is_emulated
from allocmark.machine.stack import EMULATED
from allocmark.schema import documents
from allocmark.store.runs import RecordedRun
from allocmark.system.errors import AllocmarkError


def rerun_into(
    scratch: Path, python: str = sys.executable, variables: Mapping[str, str] | None = None
) -> Rerun:
    """Return a `Rerun` that measures with an interpreter, each round below `scratch`.

    `variables` stand in its environment beside ours.
    """
    environment = {**os.environ, **(variables or {})}

    def rerun(run: RecordedRun, wanted: Sequence[tuple[str, str]], number: int) -> Sequence[Path]:
        results = scratch / f"round-{number}" / "results"
        # Where this process runs on the emulated driver already, its children do.
        emulate = run.machine.startswith(EMULATED) and not is_emulated()
        _measure(results, run.profile, wanted, python, emulate, environment)
        return sorted(results.rglob(f"*{documents.SUFFIX}"))

    return rerun


def _measure(
    results: Path,
    profile: str,
    wanted: Sequence[tuple[str, str]],
    python: str,
    emulate: bool,
    environment: Mapping[str, str],
) -> None:
    """Measure documents (experiment, subject) into `results`, an experiment at a time."""
    subjects: dict[str, list[str]] = {}
    for experiment, subject in wanted:
        subjects.setdefault(experiment, []).append(subject)
    results.mkdir(parents=True, exist_ok=True)
    for experiment, names in subjects.items():
        # The command is made up here: the one in a document is text that came with a file.
        command = [python, "-m", "allocmark", "run", "--experiment", experiment]
        command += [word for name in names for word in ("--subject", name)]
        command += ["--profile", profile, "--results", str(results)]
        if emulate:
            command = [python, "-m", "allocmark", "emulate", "--", *command]
        done = subprocess.run(
            command,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        if done.returncode != 0:
            last_line = done.stderr.strip().rpartition("\n")[2]
            what = f"{experiment} {', '.join(names)}"
            raise AllocmarkError(f"{what} could not be measured again: {last_line}")
