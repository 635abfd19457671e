"""Idle contexts side by side: worker processes that hold one each and do nothing.

``python -m allocmark.experiments.context.processes SUBJECT DEVICE PARENT`` loads what the subject
needs and answers ``ready``; then ``create`` makes its context and ``read`` tells what
cudaMemGetInfo shows as used. Each answer is one line of JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from typing import Any

from allocmark.experiments.context.subjects import subject_of
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import Request
from allocmark.experiments.shared.worker_process import WorkerProcess, answer
from allocmark.meters.memory import MemoryMeters, settled, used_bytes
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric
from allocmark.schema.metrics.context import CONTEXT, INIT, PROCESS_BYTES, PROCESSES_BYTES
from allocmark.system.lifetime import end_with_parent

PROCESSES = (1, 2, 4, 8)
_ALONE = "the first process sees what the others take: there is no other here"
_NOT_BEFORE = "cudaMemGetInfo cannot be asked before the first context exists"


def cells(subject: str) -> Iterator[tuple[Metric, str, Mapping[str, Axis]]]:
    """Return metric, meter and axes of everything that is measured here."""
    for count in PROCESSES:
        for metric in (PROCESSES_BYTES, PROCESS_BYTES):
            for meter in METERS:
                yield metric, meter, {"processes": count, "meter": meter}


def prepare(request: Request) -> Callable[[Recorder], None]:
    """Start as many processes as are ever needed, all at once and without a context."""
    command = [sys.executable, "-m", __name__, request.subject, str(request.device)]
    return partial(_measure, request, [WorkerProcess(command) for _ in range(max(PROCESSES))])


def _measure(request: Request, workers: Sequence[WorkerProcess], recorder: Recorder) -> None:
    """Let one worker after another create its context; read at each of `PROCESSES`."""
    with ExitStack() as ended:
        for worker in workers:
            ended.enter_context(worker)
        for worker in workers:
            worker.answer()  # It has loaded what it needs.
        meters = MemoryMeters(request.device)
        on_device = [settled(meters)[NVML_DEVICE]]
        seen: list[int | None] = []
        for number, worker in enumerate(workers, 1):
            with recorder.stage(f"{number} processes"):
                worker.send("create")
                worker.answer()
                on_device.append(meters.read()[NVML_DEVICE])
                workers[0].send("read")
                seen.append(workers[0].answer())
                if number in PROCESSES:
                    alive = [each.pid for each in workers[:number]]
                    listed = [meters.read(pid)[NVML_PROCESS] for pid in alive]
                    _send(number, NVML_PROCESS, listed, meters.why(NVML_PROCESS), recorder)
                    _send(number, NVML_DEVICE, _steps(on_device), None, recorder)
                    _send(number, MEM_GET_INFO, _steps(seen), _ALONE, recorder)
                continue
            return  # What one cannot have, the next will not have either.


def _steps(readings: Sequence[int | None]) -> list[int | None]:
    return [None if a is None or b is None else b - a for a, b in pairwise(readings)]


def _send(
    count: int, meter: str, each: Sequence[int | None], why: str | None, recorder: Recorder
) -> None:
    """Send the figures of one meter: what each process holds, and all of them."""
    axes: dict[str, Axis] = {"processes": count, "meter": meter}
    known = [float(value) for value in each if value is not None]
    if not known or len(known) < len(each):
        for metric in (PROCESS_BYTES, PROCESSES_BYTES):
            recorder.figure(metric.missing(why or "the meter could not be read", axes, meter))
        return
    recorder.figure(PROCESS_BYTES.sampled(meter, axes, known))
    # What the first one holds itself is not among what it sees added.
    in_all = _NOT_BEFORE if meter == MEM_GET_INFO else sum(known)
    recorder.reading(PROCESSES_BYTES, meter, axes, in_all)


def main(name: str, device: int, parent: int) -> int:
    """Serve the orders until the input ends."""
    end_with_parent(parent=parent)
    subject = subject_of(name)
    answer(subject.load)
    for line in sys.stdin:
        if line.strip() == "create":
            answer(lambda: _create(subject.steps(device)))
        else:
            answer(partial(used_bytes, device))
    return 0


def _create(steps: Any) -> None:
    for stage in (INIT, CONTEXT):
        if callable(steps[stage]):
            steps[stage]()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
