"""A process beside the one that measures: it takes orders by line and answers in JSON.

The other side of it calls `answer` for each order. It ends with whoever started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from allocmark.experiments.core.recorder import in_words
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import how_ended


class WorkerProcess:
    """The parent's side of one process; a context manager.

    Its last argument is this process's id, which it watches. `environment` is its whole one, ours
    where none is given. Raises `NotMeasurableError` where it cannot be started.
    """

    title: ClassVar[str] = "a process"
    """What reasons call it."""
    answer_s: float = 60.0
    """How long an answer may take."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        try:
            self._process = subprocess.Popen(
                [*command, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                env=environment,
            )
        except OSError as error:
            self._errors.close()
            reason = f"{command[0]} cannot be started ({error.strerror})"
            raise NotMeasurableError(reason) from error

    @property
    def pid(self) -> int:
        """Its process id, as NVML should list it."""
        return self._process.pid

    def send(self, order: str) -> None:
        """Give an order; `answer` has what comes of it."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # `answer` finds out why.
            self._process.stdin.write(f"{order}\n".encode())

    def answer(self) -> Any:
        """Return the next answer. Raises `NotMeasurableError` with the worker's own reason."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], self.answer_s)[0]:
            self._process.kill()
            raise NotMeasurableError(f"{self.title} did not answer in {self.answer_s:.0f} s")
        line = self._process.stdout.readline()
        if line:
            return value_in(line)
        ended = f"{self.title} ended {how_ended(self._process.wait())}"
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
        raise NotMeasurableError(": ".join([ended, *words]))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream
            stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def answer(function: Callable[[], Any]) -> None:
    """In the worker: print what the function returns, or why it cannot."""
    print(answer_of(function), flush=True)


def answer_of(function: Callable[[], Any]) -> str:
    """Return what the function returns, or why it cannot, as one line for `value_in`."""
    try:
        return json.dumps({"value": function()})
    except Exception as error:
        return json.dumps({"reason": in_words(error)})


def value_in(answer: bytes) -> Any:
    """Return the value of an answer. Raises `NotMeasurableError` with the reason it has instead."""
    found = json.loads(answer)
    if "reason" in found:
        raise NotMeasurableError(found["reason"])
    return found["value"]
