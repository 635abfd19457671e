"""Run a function in a fork of this process, which has imported everything and touched no GPU."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from allocmark.experiments.core.launcher import read_to_end
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
    ended = False
    try:
        answer, ended = read_to_end(read_end, time.monotonic() + limit_s)
    finally:
        os.close(read_end)
        if not ended:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if not ended:
        raise NotMeasurableError(f"stopped after its time limit of {limit_s:.0f} s")
    if not answer:
        how = how_ended(os.waitstatus_to_exitcode(status))
        raise NotMeasurableError(f"the process ended {how}")
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
