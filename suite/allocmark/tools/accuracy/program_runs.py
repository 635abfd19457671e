"""One run of a program in a process of its own: recorded, plain, or with so much memory left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.experiments.shared.worker_process import WorkerProcess
from allocmark.system.errors import AllocmarkError
from allocmark.system.lifetime import how_ended
from allocmark.tools.accuracy import program_process
from allocmark.tools.accuracy.programs import Program

LIMIT_S = 240.0
"""How long a run may take unless another limit is named."""
_END_S = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: without an error, or with one, for lack of memory (`short`) or not.

    `counters` are torch's, under the names of `program_process.COUNTERS`.
    """

    error: str
    short: bool
    seconds: float
    counters: Mapping[str, int] = field(default_factory=dict)

    @property
    def had_room(self) -> bool:
        """Whether nothing was short while it ran."""
        return not self.short and not self.counters.get("retries")


class ProgramProcess(WorkerProcess):
    """A program that has imported its libraries and waits; a context manager.

    `limit_s` is how long it may take to import, and to run.

    Raises `NotMeasurableError` where its process does not come so far.
    """

    title = "the program"

    def __init__(
        self,
        program: Program,
        allocator: Allocator,
        limit_s: float = LIMIT_S,
        record: Path | None = None,
    ) -> None:
        self.answer_s = limit_s
        # What the user exported for other programs must not change what is measured.
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTORCH_")}
        command = [sys.executable, "-m", program_process.__name__, str(program.path)]
        if record is not None:
            command = [
                *(sys.executable, "-m", "allocmark", "record", "--out", str(record), "--"),
                *command,
            ]
        super().__init__(command, {**clean, **allocator.environment})

    def run(self) -> Outcome:
        """Let it run and return how it ended, when its memory is back.

        Raises `NotMeasurableError` where its process ends without a word.
        """
        self.send("go")
        told: dict[str, Any] = self.answer()
        assert self._process.stdin
        self._process.stdin.close()
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        error = told.pop("error") or ("" if code == 0 else f"its process ended {how_ended(code)}")
        return Outcome(error=error, **told)


def run(
    program: Program, allocator: Allocator, limit_s: float = LIMIT_S, record: Path | None = None
) -> Outcome:
    """Run a program from start to end, recorded into a file if one is named.

    Raises `AllocmarkError` where it took no memory, or failed for another reason than its lack.
    """
    with closing(ProgramProcess(program, allocator, limit_s, record)) as process:
        process.answer()
        outcome = process.run()
    if outcome.error and not outcome.short:
        raise AllocmarkError(f"{program.name} under {allocator.name} failed: {outcome.error}")
    if not outcome.counters.get("peak_reserved_bytes"):
        raise AllocmarkError(f"{program.name} took no memory of a GPU through torch's allocator")
    return outcome
