"""What a memory_limit limits: what lies above it, two devices of one card, limit with growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.shared.framework_programs import FORCED_GROWTH, TensorFlow, limit_bytes
from allocmark.experiments.tensorflow_policy.points import CREATED, IMPORTED, LIVE, Readings, added
from allocmark.experiments.tensorflow_policy.steps import error_of, tell_refused, used_bytes
from allocmark.experiments.tensorflow_policy.worker import FIRST_BYTES
from allocmark.schema.device_meters import MEM_GET_INFO, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis, Figure

ALL, CONTEXT, REST = WHYS = ("all", "context", "rest")
GROWTH_FIRST = "limit after growth"
"""As the document's two ways are, run one after the other."""
LIMIT_FIRST = "growth after limit"
BY_VARIABLE = "limit, TF_FORCE_GPU_ALLOW_GROWTH=true"
COMBINATIONS: Mapping[str, Mapping[str, str]] = {
    GROWTH_FIRST: {},
    LIMIT_FIRST: {},
    BY_VARIABLE: FORCED_GROWTH,
}
"""Ways to ask for both at once, with the variables of each process."""
FIRST, SECOND, BOTH = DEVICES = ("first", "second", "both")
_METERS = (NVML_PROCESS, NVML_DEVICE)
_SET = "LogicalDeviceConfiguration"


def send_above_limit(readings: Readings, card_bytes: int, recorder: Recorder) -> None:
    """Send what is held beyond the limit at the live peak, and how much of it is the context."""
    limit = limit_bytes(card_bytes)
    recorder.figure(Figure("limit_bytes", "bytes", "exact", _SET, {}, limit))
    for meter in _METERS:
        whole = added(readings, LIVE, IMPORTED, meter)
        context = added(readings, CREATED, IMPORTED, meter)
        reason = next((one for one in (whole, context) if isinstance(one, str)), None)
        for why in WHYS:
            axes: dict[str, Axis] = {"why": why, "meter": meter}
            if reason or isinstance(whole, str) or isinstance(context, str):
                told = Figure("above_limit_bytes", "bytes", "sampled", meter, axes, reason=reason)
            else:
                values = {ALL: whole - limit, CONTEXT: context, REST: whole - limit - context}
                told = Figure("above_limit_bytes", "bytes", "sampled", meter, axes, values[why])
            recorder.figure(told)


def measure_virtual(program: TensorFlow, device: int, card_bytes: int, recorder: Recorder) -> None:
    """Make two devices of the card, the first with half of the limit, the second with a quarter."""
    with recorder.stage("two logical devices"):
        program.list_devices()
        limit = limit_bytes(card_bytes)
        program.set_limits([limit // 2, limit // 4])
        program.start()
        seen = [used_bytes(device)]
        for logical in range(2):
            program.tensors.append(program.tensor(FIRST_BYTES, logical))
            seen.append(used_bytes(device))
        told = {FIRST: seen[1] - seen[0], SECOND: seen[2] - seen[1], BOTH: seen[2] - seen[0]}
        for devices, value in told.items():
            axes: dict[str, Axis] = {"devices": devices, "meter": MEM_GET_INFO}
            recorder.figure(Figure("virtual_bytes", "bytes", "sampled", MEM_GET_INFO, axes, value))


def measure_combined(
    program: TensorFlow, setting: str, device: int, card_bytes: int, recorder: Recorder
) -> None:
    """Ask for growth and a limit together; send whether that is refused and what is taken then."""
    with recorder.stage(setting):
        program.list_devices()
        calls: list[Callable[[], None]] = [lambda: program.set_limits([limit_bytes(card_bytes)])]
        if setting != BY_VARIABLE:
            calls.insert(0 if setting == GROWTH_FIRST else 1, program.set_growth)
        errors = [error for error in map(error_of, calls) if error is not None]
        tell_refused(setting, errors[0] if errors else None, recorder)
        program.start()
        before = used_bytes(device)
        program.take([FIRST_BYTES])
        taken = used_bytes(device) - before
        axes: dict[str, Axis] = {"setting": setting}
        recorder.figure(
            Figure("combined_first_tensor_bytes", "bytes", "sampled", MEM_GET_INFO, axes, taken)
        )


def above_cells() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of `send_above_limit`."""
    yield {}, {"limit_bytes": "bytes"}
    for meter in _METERS:
        for why in WHYS:
            yield {"why": why, "meter": meter}, {"above_limit_bytes": "bytes"}


def virtual_cells() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of `measure_virtual`."""
    for devices in DEVICES:
        yield {"devices": devices, "meter": MEM_GET_INFO}, {"virtual_bytes": "bytes"}


def combined_cells(setting: str) -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the cells of `measure_combined`."""
    metrics = {"setting_refused": "count", "combined_first_tensor_bytes": "bytes"}
    yield {"setting": setting}, metrics
