"""The parent of all children: a fresh process each, its environment set before any import.

A child may be killed, crash, hang or report rubbish: each becomes a `Failure` with a reason, what
it had sent before is kept, and the run goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import IO, Protocol

from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.schema.documents import Failure, well_formed
from allocmark.schema.figure import Axis, Figure, Series
from allocmark.schema.notes import START
from allocmark.system import bytecode, interpreters
from allocmark.system.address_layout import fixed_addresses
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import how_ended
from allocmark.system.printable import visible

# What a user may have exported for other programs must not leak into a measurement.
_RESET = (
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "CUDA_MODULE_LOADING",
    "CUDA_LAUNCH_BLOCKING",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_GPU_ALLOCATOR",
    "TF_ENABLE_GPU_GARBAGE_COLLECTION",
    "TF_DEVICE_MIN_SYS_MEMORY_IN_MB",
    "TF_CUDA_MALLOC_ASYNC_SUPPORTED_PREALLOC",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
)
_KEPT_STDERR = 16_000
_THROWN = "what():  "
"""How C++ names the error that ended the process; behind it come addresses of its calls."""
AHEAD = max(1, min(5, (os.cpu_count() or 1) // 3))
"""How many processes import while one measures: enough to hide seconds of imports behind short
measurements, few enough to leave most cores to the one that measures."""
CORES_TO_SPARE = AHEAD > 1
"""Whether imports on some cores leave quiet ones to a child that must be alone."""


def child_environment(request: Request) -> dict[str, str]:
    """Return the whole environment of a child: ours, less stray settings, plus the request's.

    Hashing is seeded alike in all, so that one process differs from the next in one thing less.
    """
    kept = {name: value for name, value in os.environ.items() if name not in _RESET}
    ours = interpreters.environment(request.framework, bytecode.kept(kept))
    return {**ours, "PYTHONHASHSEED": "0", **request.environment}


class Process(Protocol):
    """A process that was started: what `Child` needs of it."""

    pid: int
    stdin: IO[bytes] | None

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""

    def wait(self) -> int:
        """Return its exit code once it has ended."""


Start = Callable[[Request, int, IO[bytes]], Process]
"""Starts a child whose readings go to a pipe and whose standard error to a file.

It leads a process group of its own, so that it and its children can be killed as one. Raises
`NotMeasurableError` where it cannot be started.
"""


def spawn(request: Request, pipe: int, stderr: IO[bytes]) -> Process:
    """Start a child as a program of its own: the usual `Start`."""
    command = interpreters.command(request.framework, "allocmark.experiments.child", [str(pipe)])
    try:
        with fixed_addresses() if request.fixed_addresses else contextlib.nullcontext():
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env=child_environment(request),
                pass_fds=[pipe],
                start_new_session=True,
            )
    except OSError as error:
        python = interpreters.interpreter(request.framework)
        raise NotMeasurableError(
            f"{python} cannot be started ({error.strerror}): "
            f"set {interpreters.variable(request.framework)} to another Python"
        ) from error


class Child:
    """One started process: prepares at once, measures when it is sent ``go``."""

    def __init__(self, request: Request, start: Start = spawn) -> None:
        if why := interpreters.left_out(request.framework):
            raise NotMeasurableError(f"{request.framework} is left out of this run: {why}")
        self.request = request
        read_end, write_end = os.pipe()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        try:
            self._process = start(request, write_end, self._stderr)
        except BaseException:
            os.close(read_end)
            self._stderr.close()
            raise
        finally:
            os.close(write_end)
        self._pipe = read_end
        self._send(json.dumps(request.to_json()))

    def run(self) -> ChildOutcome:
        """Let it measure; return what it reported and how it ended."""
        begin = time.monotonic()
        self._send("go")
        text, ended = read_to_end(self._pipe, begin + self.request.limit_s)
        if not ended:
            self.kill()
        code = self._process.wait()
        outcome, stage, finished = _parse(self.request, time.monotonic() - begin, text)
        if not finished:
            reason = f"stopped after its time limit of {self.request.limit_s:.0f} s"
            reason = ending(code, self._error_text()) if ended else reason
            outcome = replace(outcome, failures=[*outcome.failures, Failure(stage, reason)])
        self.close()
        return outcome

    def kill(self) -> None:
        """End the child and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Release what the child holds here; kills it if it still runs."""
        if self._process.poll() is None:
            self.kill()
            self._process.wait()
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        self._stderr.close()

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has died already; `run` finds out why.

    def _error_text(self) -> str:
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - _KEPT_STDERR))
        return self._stderr.read().decode(errors="replace")


def read_to_end(pipe: int, deadline: float) -> tuple[bytes, bool]:
    """Return what comes through a pipe, and whether its end did so before the deadline."""
    pieces: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if select.select([pipe], [], [], left)[0]:
            piece = os.read(pipe, 1 << 20)
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
    return b"".join(pieces), False


def _parse(request: Request, seconds: float, text: bytes) -> tuple[ChildOutcome, str, bool]:
    """Return what was reported, the last stage, and whether it was all."""
    figures: list[Figure] = []
    series: list[Series] = []
    failures: list[Failure] = []
    notes: dict[str, Axis] = {}
    spent: dict[str, float] = {}
    stage, finished = START, False
    for line in text.split(b"\n"):
        try:
            message = json.loads(well_formed(line))
            data = message["data"]
            match message["kind"]:
                case "figure":
                    figures.append(Figure.from_json(data))
                case "series":
                    series.append(Series.from_json(data))
                case "failure":
                    failures.append(Failure(**data))
                case "note":
                    notes[data["name"]] = data["value"]
                case "spent":
                    spent[data["name"]] = spent.get(data["name"], 0.0) + data["seconds"]
                case "stage":
                    stage = data["name"]
                case "done":
                    finished = True
        except (ValueError, TypeError, KeyError):
            continue  # Half a line: the child died while it wrote.
    outcome = ChildOutcome(request, seconds, figures, series, failures, notes, spent)
    return outcome, stage, finished


def ending(code: int, stderr: str) -> str:
    """Say in one sentence how a child ended that should not have."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    thrown = (line.partition(_THROWN)[2] for line in lines if _THROWN in line)
    last = next(thrown, lines[-1] if lines else "")
    ended = f"the process {'was ' if code < 0 else ''}ended {how_ended(code)}"
    return f"{ended}: {visible(last)}" if last else ended


def launch_all(
    requests: Sequence[Request], ahead: int = AHEAD, start: Start = spawn
) -> Generator[ChildOutcome, None, None]:
    """Run the requests one after another, `ahead` of them importing while one measures.

    Beside one that is to be alone none does, unless there are cores to spare.
    """
    waiting: deque[Child | ChildOutcome] = deque()
    queue = deque(requests)
    last_alone = False
    try:
        while queue or waiting:
            while queue and len(waiting) <= ahead and not (waiting and last_alone):
                last_alone = queue[0].alone and not CORES_TO_SPARE
                waiting.append(_started(queue.popleft(), start))
            first = waiting[0]
            yield first.run() if isinstance(first, Child) else first
            waiting.popleft()
    finally:
        for child in waiting:
            if isinstance(child, Child):
                child.close()


def _started(request: Request, start: Start) -> Child | ChildOutcome:
    """Start a child, or say why it could not be."""
    try:
        return Child(request, start)
    except NotMeasurableError as error:
        return ChildOutcome(request, 0.0, failures=[Failure(START, str(error))])


def launch(request: Request) -> ChildOutcome:
    """Run one request."""
    (outcome,) = launch_all([request])
    return outcome
