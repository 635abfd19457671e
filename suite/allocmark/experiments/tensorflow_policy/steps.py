"""One process's way from its first call: how long, in which steps, and what happens past its end.

All of it in the process itself, each part in a fresh one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from allocmark.allocators.tensorflow_gpu import LIMIT, MODES
from allocmark.allocators.tensorflow_gpu.framework import QUIET
from allocmark.experiments.core.recorder import CLOCK, Cell, Recorder
from allocmark.experiments.shared import framework_programs as programs
from allocmark.experiments.tensorflow_policy.program_part import (
    FIRST_BYTES,
    RAISED,
    ProgramPart,
    TensorFlowPart,
    device_bytes,
    error_of,
    send_refused,
)
from allocmark.meters.memory import used_bytes
from allocmark.schema.device_meters import MEM_GET_INFO
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import tensorflow_policy as metrics
from allocmark.system.units import MIB

STEP_TENSOR_BYTES = MIB
FIRST_STEPS = 16
"""So many steps have a cell of their own; the rest are in the series."""
_PAST = (metrics.PAST_LIMIT_FAILED, metrics.PAST_LIMIT_SECONDS)


class Cold(ProgramPart):
    """The way to the device and to the first tensor."""

    name = "cold"

    def measure(self, recorder: Recorder) -> None:
        program, gpu_bytes = self.program, device_bytes(self.device)
        with recorder.stage("cold"):
            begin = time.perf_counter()
            program.list_devices()
            program.create_device(gpu_bytes)
            made = time.perf_counter()
            program.take([FIRST_BYTES])
            end = time.perf_counter()
            recorder.reading(metrics.DEVICE_SECONDS, CLOCK, {}, made - begin)
            recorder.reading(metrics.FIRST_TENSOR_SECONDS, CLOCK, {}, end - made)

    def cells(self) -> Iterator[Cell]:
        yield {}, (metrics.DEVICE_SECONDS, metrics.FIRST_TENSOR_SECONDS)


class Steps(ProgramPart):
    """Small tensors that add up to the set, then one past the end, then what is set too late.

    Steps are seen by cuMemGetInfo from inside: what another process takes or frees meanwhile would
    be among them.
    """

    name = "steps"

    def measure(self, recorder: Recorder) -> None:
        program, gpu_bytes = self.program, device_bytes(self.device)
        program.list_devices()
        program.create_device(gpu_bytes)
        with recorder.stage("steps"):
            _take_in_steps(program, self.device, gpu_bytes, recorder)
        program.drop()
        with recorder.stage("past the limit"):
            _go_past(program, metrics.DEFAULT, gpu_bytes, recorder)
        if isinstance(program, programs.TensorFlow):
            with recorder.stage("late settings"):
                _set_late(program, gpu_bytes, recorder)

    def cells(self) -> Iterator[Cell]:
        """Yield the cells, steps apart: nobody knows how many there are."""
        yield {}, (metrics.STEPS, metrics.LARGEST_STEP_BYTES, metrics.BEYOND_NEED_BYTES)
        yield {"retry": metrics.DEFAULT}, _PAST
        if self.subject in MODES:
            for setting in (metrics.LATE_GROWTH, metrics.LATE_LIMIT):
                yield {"setting": setting}, (metrics.SETTING_REFUSED,)


class WithoutRetry(TensorFlowPart):
    """One past the limit where TensorFlow was told not to wait for memory."""

    name = "no retry"

    def environment(self) -> Mapping[str, str]:
        return QUIET  # A session's options set the mode, all of it.

    def measure(self, recorder: Recorder) -> None:
        program, gpu_bytes = self.program, device_bytes(self.device)
        with recorder.stage("without retry"):
            try:
                program.list_devices()
                program.create_session(gpu_bytes, retry=False)
                program.start()
                program.take([FIRST_BYTES])  # The mode's own first region is no part of the wait.
            except Exception as error:
                recorder.unfilled(self.cells(), programs.in_one_line(error))
                raise
            _go_past(program, metrics.OFF, gpu_bytes, recorder)

    def cells(self) -> Iterator[Cell]:
        yield {"retry": metrics.OFF}, _PAST


def _take_in_steps(
    program: programs.Program, device: int, gpu_bytes: int, recorder: Recorder
) -> None:
    start = last = used_bytes(device)
    live, beyond = 0, 0
    lives: list[float] = []
    takens: list[float] = []
    steps: list[int] = []
    for _ in range(sum(programs.tensor_set(gpu_bytes)) // STEP_TENSOR_BYTES):
        program.take([STEP_TENSOR_BYTES])
        live += STEP_TENSOR_BYTES
        now = used_bytes(device)
        beyond = max(beyond, now - start - live)
        if now != last:
            steps.append(now - last)
            lives.append(live)
            takens.append(now - start)
        last = now
    recorder.reading(metrics.STEPS, MEM_GET_INFO, {}, len(steps))
    recorder.reading(metrics.LARGEST_STEP_BYTES, MEM_GET_INFO, {}, max(steps, default=0))
    recorder.reading(metrics.BEYOND_NEED_BYTES, MEM_GET_INFO, {}, beyond)
    for number, size in enumerate(steps[:FIRST_STEPS], 1):
        recorder.reading(metrics.STEP_BYTES, MEM_GET_INFO, {"step": number}, size)
    recorder.series(metrics.STEPS_SERIES, {}, live_bytes=lives, taken_bytes=takens)


def _go_past(program: programs.Program, retry: str, gpu_bytes: int, recorder: Recorder) -> None:
    """Ask for more than there may be: than the limit, where there is one, else than the GPU has."""
    limited = isinstance(program, programs.TensorFlow) and program.mode == LIMIT
    most = programs.limit_bytes(gpu_bytes) if limited else gpu_bytes
    size = (most // MIB + 1) * MIB
    begin = time.perf_counter()
    error = error_of(lambda: program.take([size]))
    seconds = time.perf_counter() - begin
    axes: dict[str, Axis] = {"retry": retry}
    recorder.reading(metrics.PAST_LIMIT_FAILED, RAISED, axes, int(error is not None))
    recorder.reading(metrics.PAST_LIMIT_SECONDS, CLOCK, axes, seconds)
    if error is not None:
        recorder.error(f"past the limit, retry {retry}", programs.in_one_line(error))


def _set_late(program: programs.TensorFlow, gpu_bytes: int, recorder: Recorder) -> None:
    """Set the modes after the device exists, as a program does that comes to it too late."""
    calls: Mapping[str, Callable[[], None]] = {
        metrics.LATE_GROWTH: program.set_growth,
        metrics.LATE_LIMIT: lambda: program.set_limits([programs.limit_bytes(gpu_bytes) // 2]),
    }
    for setting, call in calls.items():
        send_refused(setting, error_of(call), recorder)
