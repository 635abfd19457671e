"""``python -m allocmark.experiments.preloading CONTROL EXPERIMENT FRAMEWORK``: imports, and forks.

Started by `allocmark.experiments.core.preloaded`. It never starts CUDA, and forks as long as it has
one thread only: a driver that had been started would have more. For each child it receives its
standard input, standard error, pipe and the place where to say its id and its exit code.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from allocmark.allocators.base import import_framework
from allocmark.experiments import child
from allocmark.experiments.catalog import experiment
from allocmark.experiments.core.preloaded import READY
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import end_with_parent

_PASSED = 4
_CHILD_ENDED = {signal.SIGCHLD}


def main(control: int, name: str, framework: str) -> int:
    """Fork a child for each order, until there are no more; returns the exit code."""
    end_with_parent()
    experiment(name)
    with suppress(NotMeasurableError):  # A child says why.
        import_framework(framework)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return 1
    gc.freeze()  # What is there is shared, and stays.
    parent = os.getpid()
    places: dict[int, int] = {}

    def ended(*_signal: object) -> None:
        """Say the exit codes of all that have ended: one signal may stand for several."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                place = places.pop(found[0])
                _say(place, os.waitstatus_to_exitcode(found[1]))
                os.close(place)

    signal.signal(signal.SIGCHLD, ended)
    with socket.socket(fileno=control) as orders:
        orders.sendall(READY)
        while True:
            _order, passed, *_rest = socket.recv_fds(orders, 1, _PASSED)
            if not passed:
                return 0
            signal.pthread_sigmask(signal.SIG_BLOCK, _CHILD_ENDED)
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, _CHILD_ENDED)
                for place in (control, passed[-1], *places.values()):
                    os.close(place)
                _serve(passed, parent)
            places[pid] = passed[-1]
            _say(places[pid], pid)
            for place in passed[:-1]:
                os.close(place)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _CHILD_ENDED)


def _say(place: int, number: int) -> None:
    with suppress(BrokenPipeError):  # Nobody waits for it any more.
        os.write(place, b"%d\n" % number)


def _serve(passed: list[int], parent: int) -> NoReturn:
    """Become a child with an environment of its own, as if newly started."""
    code = 1
    try:
        end_with_parent(parent=parent)
        os.setsid()
        for place, own in zip(passed, (sys.stdin, sys.stderr), strict=False):
            os.dup2(place, own.fileno())
            os.close(place)
        variables = json.loads(sys.stdin.readline())
        os.environ.clear()
        os.environ.update(variables)
        code = child.main(passed[2])
    except SystemExit as error:
        if not isinstance(error.code, int | None):
            print(error.code, file=sys.stderr, flush=True)
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
