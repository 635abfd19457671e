"""A part of the check in a process of its own, which may hang, crash or lose the GPU.

The child says each stage as it begins and its readings at the end, a line of JSON each, so that
one which never answers is told from the others by where it was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from allocmark.experiments.core.recorder import in_words
from allocmark.system.lifetime import end_with_parent, how_ended

Stage = Callable[[str], None]
"""Says what begins now."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a child ended. `failure` is the reason why there are no readings, None where there are.

    `stage` is the last that it began, "" before the first. `pid` is what NVML listed it by.
    """

    pid: int
    stage: str = ""
    readings: Mapping[str, Any] = field(default_factory=dict)
    failure: str | None = None
    timed_out: bool = False


def ask(command: Sequence[str], environment: Mapping[str, str], limit_s: float) -> Answer:
    """Start a child and return what it says; it is killed at the limit, with whatever it started.

    `command` is completed by our process id, which the child watches.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                [*command, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
                start_new_session=True,
            )
        except OSError as error:
            return Answer(0, failure=f"{command[0]} cannot be started ({error.strerror})")
        timed_out = False
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        errors.seek(0)
        last_words = errors.read().decode(errors="replace").strip().splitlines()[-1:]
    lines = [json.loads(line) for line in output.splitlines() if line.startswith(b'{"')]
    said = {name: value for line in lines for name, value in line.items()}
    stage = str(said.get("stage", ""))
    readings = said.get("readings")
    if readings is not None:
        return Answer(process.pid, stage, readings)
    if timed_out:
        failure = f"it did not end within {limit_s:.0f} s"
    elif "failure" in said:
        failure = str(said["failure"])
    else:
        failure = ": ".join([f"its process ended {how_ended(process.returncode)}", *last_words])
    return Answer(process.pid, stage, {}, failure, timed_out)


def run(part: Callable[[Stage], Mapping[str, Any]], parent: int) -> None:
    """In the child: do the part, and print what comes of it."""
    end_with_parent(parent=parent)
    try:
        _say(readings=dict(part(lambda stage: _say(stage=stage))))
    except Exception as error:
        _say(failure=in_words(error))


def _say(**line: Any) -> None:
    print(json.dumps(line), file=sys.stdout, flush=True)
