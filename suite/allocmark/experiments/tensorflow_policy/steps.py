"""One process's way from its first call: how long, in which steps, and what happens past its end.

All of it in the process itself, each part in a fresh one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.shared.framework_programs import (
    LIMIT,
    Program,
    TensorFlow,
    in_one_line,
    limit_bytes,
    tensor_set,
)
from allocmark.experiments.tensorflow_policy.worker import FIRST_BYTES
from allocmark.meters.memory import used_bytes_in_context
from allocmark.schema.device_meters import MEM_GET_INFO
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB

CLOCK = "perf_counter"
STEP_TENSOR_BYTES = MIB
FIRST_STEPS = 16
"""So many steps have a cell of their own; the rest are in the series."""
RETRIES = DEFAULT, OFF = "default", "off"
LATE_GROWTH, LATE_LIMIT = "growth after the start", "limit after the start"
STEP_METRICS: Mapping[str, str] = {
    "steps": "count",
    "largest_step_bytes": "bytes",
    "beyond_need_bytes": "bytes",
}
_ASKED = "raised or not"


def measure_cold(program: Program, card_bytes: int, recorder: Recorder) -> None:
    """Time the way to the device and to the first tensor."""
    with recorder.stage("cold"):
        begin = time.perf_counter()
        program.list_devices()
        program.create_device(card_bytes)
        made = time.perf_counter()
        program.take([FIRST_BYTES])
        end = time.perf_counter()
        for metric, seconds in (
            ("device_seconds", made - begin),
            ("first_tensor_seconds", end - made),
        ):
            recorder.figure(Figure(metric, "s", "time", CLOCK, {}, seconds))


def measure_steps(program: Program, device: int, card_bytes: int, recorder: Recorder) -> None:
    """Watch small tensors add up to the set, then go past the end, then set what is set too late.

    Steps are seen by cuMemGetInfo from inside: what another process takes or frees meanwhile would
    be among them.
    """
    program.list_devices()
    program.create_device(card_bytes)
    with recorder.stage("steps"):
        _take_in_steps(program, device, card_bytes, recorder)
    program.drop()
    with recorder.stage("past the limit"):
        _go_past(program, DEFAULT, card_bytes, recorder)
    if isinstance(program, TensorFlow):
        with recorder.stage("late settings"):
            _set_late(program, card_bytes, recorder)


def measure_without_retry(program: Program, card_bytes: int, recorder: Recorder) -> None:
    """Go past the limit where TensorFlow was told not to wait for memory."""
    axes: dict[str, Axis] = {"retry": OFF}
    if not isinstance(program, TensorFlow):
        raise NotMeasurableError("torch frees its cache and tries again at once; it never waits")
    with recorder.stage("without retry"):
        try:
            program.list_devices()
            program.create_session(card_bytes, retry=False)
            program.start()
            program.take([FIRST_BYTES])  # The mode's own first region is no part of the wait.
        except Exception as error:
            for metric, unit in _PAST.items():
                recorder.missing(metric, unit, in_one_line(error), axes)
            raise
        _go_past(program, OFF, card_bytes, recorder)


_PAST = {"past_limit_failed": "count", "past_limit_seconds": "s"}


def _take_in_steps(program: Program, device: int, card_bytes: int, recorder: Recorder) -> None:
    start = last = used_bytes(device)
    live, beyond = 0, 0
    lives: list[float] = []
    takens: list[float] = []
    steps: list[int] = []
    for _ in range(sum(tensor_set(card_bytes)) // STEP_TENSOR_BYTES):
        program.take([STEP_TENSOR_BYTES])
        live += STEP_TENSOR_BYTES
        now = used_bytes(device)
        beyond = max(beyond, now - start - live)
        if now != last:
            steps.append(now - last)
            lives.append(live)
            takens.append(now - start)
        last = now
    told = {
        "steps": len(steps),
        "largest_step_bytes": max(steps, default=0),
        "beyond_need_bytes": beyond,
    }
    for metric, unit in STEP_METRICS.items():
        recorder.figure(Figure(metric, unit, "sampled", MEM_GET_INFO, {}, told[metric]))
    for number, size in enumerate(steps[:FIRST_STEPS], 1):
        axes: dict[str, Axis] = {"step": number}
        recorder.figure(Figure("step_bytes", "bytes", "sampled", MEM_GET_INFO, axes, size))
    recorder.series("steps", {}, live_bytes=lives, taken_bytes=takens)


def _go_past(program: Program, retry: str, card_bytes: int, recorder: Recorder) -> None:
    """Ask for more than there may be: than the limit, where there is one, else than the card."""
    limited = isinstance(program, TensorFlow) and program.mode == LIMIT
    most = limit_bytes(card_bytes) if limited else card_bytes
    size = (most // MIB + 1) * MIB
    begin = time.perf_counter()
    error = error_of(lambda: program.take([size]))
    seconds = time.perf_counter() - begin
    axes: dict[str, Axis] = {"retry": retry}
    failed = int(error is not None)
    recorder.figure(Figure("past_limit_failed", "count", "exact", _ASKED, axes, failed))
    recorder.figure(Figure("past_limit_seconds", "s", "time", CLOCK, axes, seconds))
    if error is not None:
        recorder.told(f"past the limit, retry {retry}", in_one_line(error))


def _set_late(program: TensorFlow, card_bytes: int, recorder: Recorder) -> None:
    """Set the modes after the device exists, as a program does that comes to it too late."""
    calls: Mapping[str, Callable[[], None]] = {
        LATE_GROWTH: program.set_growth,
        LATE_LIMIT: lambda: program.set_limits([limit_bytes(card_bytes) // 2]),
    }
    for setting, call in calls.items():
        tell_refused(setting, error_of(call), recorder)


def tell_refused(setting: str, error: Exception | None, recorder: Recorder) -> None:
    """Send whether a setting was refused, and in which words."""
    axes: dict[str, Axis] = {"setting": setting}
    refused = int(error is not None)
    recorder.figure(Figure("setting_refused", "count", "exact", _ASKED, axes, refused))
    if error is not None:
        recorder.told(setting, in_one_line(error))


def error_of(call: Callable[[], object]) -> Exception | None:
    """Return what a call raises."""
    try:
        call()
    except Exception as error:
        return error
    return None


def used_bytes(device: int) -> int:
    """Return what cuMemGetInfo shows as used. Raises `NotMeasurableError`."""
    used = used_bytes_in_context(device)
    if isinstance(used, str):
        raise NotMeasurableError(used)
    return used


def cold_cells() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of the cold processes."""
    yield {}, {"device_seconds": "s", "first_tensor_seconds": "s"}


def step_cells(late: bool) -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of `measure_steps`, steps apart: nobody knows how many there are."""
    yield {}, STEP_METRICS
    yield {"retry": DEFAULT}, _PAST
    if late:
        for setting in (LATE_GROWTH, LATE_LIMIT):
            yield {"setting": setting}, {"setting_refused": "count"}


def retry_cells() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of `measure_without_retry`."""
    yield {"retry": OFF}, _PAST
