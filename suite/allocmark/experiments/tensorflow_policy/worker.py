"""One process of a policy's program: it takes a step when told, and says what it sees itself.

``python -m allocmark.experiments.tensorflow_policy.worker SUBJECT DEVICE WAY DEVICE_BYTES PARENT``
imports the framework and answers; then each order is a line of JSON, ``["step", …]``, and each
answer another one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from allocmark.experiments.core.launcher import child_environment
from allocmark.experiments.core.request import Request
from allocmark.experiments.shared import framework_programs as programs
from allocmark.experiments.shared.worker_process import WorkerProcess, answer
from allocmark.experiments.tensorflow_policy.program_part import FIRST_BYTES
from allocmark.experiments.tensorflow_policy.sharing import export, open_exported
from allocmark.meters.memory import used_bytes_in_context
from allocmark.system import interpreters
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import end_with_parent


class Worker(WorkerProcess):
    """The observer's side. Orders raise `NotMeasurableError` with the worker's reason."""

    def __init__(self, subject: str, device: int, device_bytes: int, way: str = "") -> None:
        self.subject, self.way = subject, way
        framework = programs.framework_of(subject)
        request = Request(
            "", subject, 0.0, {}, programs.environment_of(subject, way), framework, device
        )
        arguments = [subject, str(device), way, str(device_bytes)]
        command = interpreters.command(framework, __name__, arguments)
        super().__init__(command, child_environment(request))

    def order(self, *order: object) -> Any:
        """Give an order and return its answer."""
        self.send(json.dumps(order))
        return self.answer()


class _Served:
    """The worker's side: a method for each order."""

    def __init__(self, program: programs.Program, device: int, device_bytes: int) -> None:
        self._program, self._device, self._device_bytes = program, device, device_bytes
        self.orders: Mapping[str, Callable[..., Any]] = {
            "list": program.list_devices,
            "create": lambda: program.create_device(device_bytes),
            "first": lambda: program.take([FIRST_BYTES]),
            "take": lambda: program.take(programs.tensor_set(device_bytes)),
            "drop": program.drop,
            "empty": program.empty_cache,
            "read": self._read,
            "run": self._run,
            "export": lambda way: export(way, program, device),
            "open": lambda way, handle: open_exported(way, handle, program, device),
        }

    def _read(self) -> dict[str, Any]:
        """Return what only this process can tell."""
        used = used_bytes_in_context(self._device)
        # To ask TensorFlow for its counters would create the device, in no mode at all.
        counters = {} if isinstance(used, str) else self._program.counters()
        resident_pages = int(Path("/proc/self/statm").read_text().split()[1])
        host_bytes = resident_pages * os.sysconf("SC_PAGE_SIZE")
        return {"used": used, "counters": counters, "host": host_bytes}

    def _run(self) -> dict[str, Any]:
        """Go from nothing to the whole set, as far as it goes."""
        program, error, live = self._program, None, 0
        begin = time.perf_counter()
        try:
            program.list_devices()
            program.create_device(self._device_bytes)
            for size in [FIRST_BYTES, *programs.tensor_set(self._device_bytes)]:
                program.take([size])
                live += size
        except NotMeasurableError:
            raise
        except Exception as raised:
            error = programs.in_one_line(raised)
        return {"seconds": time.perf_counter() - begin, "live": live, "error": error}


def _follow(call: Callable[..., Any], arguments: Sequence[object]) -> Any:
    """Return what an order comes to; what it raises becomes one line of reason."""
    try:
        return call(*arguments)
    except NotMeasurableError:
        raise
    except Exception as error:
        raise NotMeasurableError(programs.in_one_line(error)) from error


def main(arguments: Sequence[str]) -> int:
    """Serve the orders until the input ends."""
    subject, device, way, device_bytes, parent = arguments
    end_with_parent(parent=int(parent))
    program = programs.program_of(subject, int(device), way)
    answer(program.load)
    served = _Served(program, int(device), int(device_bytes))
    for line in sys.stdin:
        name, *rest = json.loads(line)
        answer(partial(_follow, served.orders[name], rest))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
