"""Run a function in a fork of this process, which has imported everything and touched no GPU."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from allocmark.experiments.shared.worker_process import answer_of, value_in
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import end_with_parent, how_ended

_LIMIT_S = 30.0


def in_fork(function: Callable[[], Any], limit_s: float = _LIMIT_S) -> Any:
    """Return what the function returns, as plain data.

    Raises `NotMeasurableError` with the reason where it raises, crashes or takes too long.
    """
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _serve(function, write_end)
    os.close(write_end)
    answer: bytes | None = None
    try:
        answer = _read(read_end, time.monotonic() + limit_s)
    finally:
        os.close(read_end)
        if answer is None:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if answer is None:
        raise NotMeasurableError(f"stopped after its time limit of {limit_s:.0f} s")
    if not answer:
        raise NotMeasurableError(
            f"the process ended {how_ended(os.waitstatus_to_exitcode(status))}"
        )
    return value_in(answer)


def _serve(function: Callable[[], Any], pipe: int) -> NoReturn:
    """Answer and end at once: what the parent has registered for its own end is not ours."""
    try:
        end_with_parent()
        text = answer_of(function).encode()
        while text:
            text = text[os.write(pipe, text) :]
    finally:
        os._exit(0)


def _read(pipe: int, deadline: float) -> bytes | None:
    """Return everything up to the end of the pipe, None if that does not come in time."""
    pieces: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            return None
        piece = os.read(pipe, 1 << 16)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return None
