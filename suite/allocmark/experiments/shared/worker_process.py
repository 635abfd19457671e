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
from types import TracebackType
from typing import Any

from allocmark.experiments.core.recorder import in_words
from allocmark.system.errors import NotMeasurableError

_ANSWER_S = 60.0


class Companion:
    """The parent's side of one process; a context manager.

    Its last argument is this process's id, which it watches. `environment` is its whole one, ours
    where none is given. Raises `NotMeasurableError` where it cannot be started.
    """

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
            raise NotMeasurableError(
                f"{command[0]} cannot be started ({error.strerror})"
            ) from error

    @property
    def pid(self) -> int:
        """Its process id, as NVML should list it."""
        return self._process.pid

    def tell(self, order: str) -> None:
        """Give an order; `answer` has what comes of it."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # `answer` finds out why.
            self._process.stdin.write(f"{order}\n".encode())

    def answer(self) -> Any:
        """Return the next answer. Raises `NotMeasurableError` with the worker's own reason."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], _ANSWER_S)[0]:
            raise NotMeasurableError(f"a process did not answer in {_ANSWER_S:.0f} s")
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            words = self._errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise NotMeasurableError(": ".join([f"a process ended with exit code {code}", *words]))
        told = json.loads(line)
        if "reason" in told:
            raise NotMeasurableError(told["reason"])
        return told["value"]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream
            stream.close()

    def __enter__(self) -> Companion:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def answer(function: Callable[[], Any]) -> None:
    """In the companion: print what the function returns, or why it cannot."""
    try:
        told = {"value": function()}
    except Exception as error:
        told = {"reason": in_words(error)}
    print(json.dumps(told), flush=True)
