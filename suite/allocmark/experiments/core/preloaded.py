"""Children forked from one process that has imported their framework and has not started CUDA.

To import torch takes a second or two in each process. A fork of one that has done so and nothing
else starts CUDA itself, so it is as fresh as a process of its own: with its own context, its own
allocator, and the settings of its own environment, which torch reads as CUDA starts. What torch
reads as it is loaded is the backend: only requests that leave that alone may come here.
``setting_in_force`` of the experiments holds what torch says of its setting against the request.

``allocmark.experiments.preloading`` is the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from typing import IO, Self

from allocmark.experiments.core.launcher import Process, child_environment, spawn
from allocmark.experiments.core.request import Request
from allocmark.system import interpreters
from allocmark.system.errors import NotMeasurableError

READY = b"ready"
_CLOSED = "the replay was stopped"


class Preloaded:
    """The process, seen from outside; a context manager that ends it and its forks.

    `request` stands for the others: they have its framework and its experiment. Raises `OSError`
    where the process cannot be started.
    """

    def __init__(self, request: Request) -> None:
        self._control, theirs = socket.socketpair()
        self._ready = self._closed = False
        module = "allocmark.experiments.preloading"
        arguments = [str(theirs.fileno()), request.experiment, request.framework]
        with theirs:
            self._process = subprocess.Popen(
                interpreters.command(request.framework, module, arguments),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A thread of a numeric library would forbid to fork.
                env={**child_environment(request), "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self, request: Request, pipe: int, stderr: IO[bytes]) -> Process:
        """Start a child as `spawn` does, or by `spawn` where this process may not be forked.

        Waits until the framework is imported. Raises `NotMeasurableError` once it is closed.
        """
        if not self._ready:
            self._ready = self._control.recv(len(READY)) == READY
        if self._closed:
            raise NotMeasurableError(_CLOSED)
        if not self._ready:
            return spawn(request, pipe, stderr)
        orders_read, orders = os.pipe()
        status, status_write = os.pipe()
        try:
            passed = [orders_read, stderr.fileno(), pipe, status_write]
            socket.send_fds(self._control, [b"\n"], passed)
        except OSError:  # It was killed.
            os.close(orders)
            os.close(status)
            return spawn(request, pipe, stderr)
        finally:
            os.close(orders_read)
            os.close(status_write)
        stdin = os.fdopen(orders, "wb")
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(child_environment(request)).encode() + b"\n")
            stdin.flush()
        return _Forked(stdin, os.fdopen(status, "rb", buffering=0))

    def close(self) -> None:
        """End the process, and with it what it has forked."""
        self._closed = True
        self._process.kill()
        self._process.wait()
        self._control.close()


class _Forked:
    """One fork. Its parent says its id as it starts and its exit code as it ends."""

    def __init__(self, stdin: IO[bytes], status: IO[bytes]) -> None:
        self.stdin: IO[bytes] | None = stdin
        self._status = status
        self.pid = int(status.readline() or 0)
        self._code: int | None = None if self.pid else -signal.SIGKILL

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        if self._code is None and select.select([self._status], [], [], 0)[0]:
            self.wait()
        return self._code

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        if self._code is None:
            # Nothing at all: what forked it was killed, and so was it.
            self._code = int(self._status.readline() or -signal.SIGKILL)
            self._status.close()
        return self._code
