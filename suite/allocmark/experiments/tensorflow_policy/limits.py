"""What a memory_limit limits: what lies above it, two devices of one GPU, limit with growth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.shared.framework_programs import FORCED_GROWTH, limit_bytes
from allocmark.experiments.tensorflow_policy.program_part import (
    FIRST_BYTES,
    TensorFlowPart,
    device_bytes,
    error_of,
    send_refused,
)
from allocmark.experiments.tensorflow_policy.readings import Readings, Value, added
from allocmark.meters.memory import used_bytes
from allocmark.schema.device_meters import MEM_GET_INFO, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.metrics import tensorflow_policy as metrics

COMBINATIONS: Mapping[str, Mapping[str, str]] = {
    metrics.LIMIT_AFTER_GROWTH: {},
    metrics.GROWTH_AFTER_LIMIT: {},
    metrics.LIMIT_BY_VARIABLE: FORCED_GROWTH,
}
"""Ways to ask for both at once, with the variables of each process; the first is the document's two
ways, run one after the other."""
_METERS = (NVML_PROCESS, NVML_DEVICE)
_SET = "LogicalDeviceConfiguration"


class Virtual(TensorFlowPart):
    """Two devices of the GPU, the first with half of the limit, the second with a quarter."""

    name = "virtual"

    def measure(self, recorder: Recorder) -> None:
        program, gpu_bytes = self.program, device_bytes(self.device)
        with recorder.stage("two logical devices"):
            program.list_devices()
            limit = limit_bytes(gpu_bytes)
            program.set_limits([limit // 2, limit // 4])
            program.start()
            seen = [used_bytes(self.device)]
            for logical in range(2):
                program.tensors.append(program.tensor(FIRST_BYTES, logical))
                seen.append(used_bytes(self.device))
            values = {
                metrics.FIRST: seen[1] - seen[0],
                metrics.SECOND: seen[2] - seen[1],
                metrics.BOTH: seen[2] - seen[0],
            }
            for axes, (metric,) in self.cells():
                recorder.reading(metric, MEM_GET_INFO, axes, values[str(axes["devices"])])

    def cells(self) -> Iterator[Cell]:
        for devices in metrics.DEVICES:
            yield {"devices": devices, "meter": MEM_GET_INFO}, (metrics.VIRTUAL_BYTES,)


class Combined(TensorFlowPart):
    """Growth and a limit together: whether that is refused and what is taken then.

    Parameter ``setting``: one of `COMBINATIONS`.
    """

    name = "combined"

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), **COMBINATIONS[self.parameters["setting"]]}

    def measure(self, recorder: Recorder) -> None:
        program, gpu_bytes = self.program, device_bytes(self.device)
        setting: str = self.parameters["setting"]
        with recorder.stage(setting):
            program.list_devices()
            calls: list[Callable[[], None]] = [lambda: program.set_limits([limit_bytes(gpu_bytes)])]
            if setting != metrics.LIMIT_BY_VARIABLE:
                calls.insert(0 if setting == metrics.LIMIT_AFTER_GROWTH else 1, program.set_growth)
            errors = [error for error in map(error_of, calls) if error is not None]
            send_refused(setting, errors[0] if errors else None, recorder)
            program.start()
            before = used_bytes(self.device)
            program.take([FIRST_BYTES])
            taken = used_bytes(self.device) - before
            metric = metrics.COMBINED_FIRST_TENSOR_BYTES
            recorder.reading(metric, MEM_GET_INFO, {"setting": setting}, taken)

    def cells(self) -> Iterator[Cell]:
        axes = {"setting": self.parameters["setting"]}
        yield axes, (metrics.SETTING_REFUSED, metrics.COMBINED_FIRST_TENSOR_BYTES)


def above_limit(readings: Readings, gpu_bytes: int) -> Iterator[Value]:
    """Yield what is held beyond the limit at the live peak, and how much of it is the context."""
    limit = limit_bytes(gpu_bytes)
    yield metrics.LIMIT_BYTES, _SET, {}, limit
    for meter in _METERS:
        whole = added(readings, metrics.LIVE_PEAK, metrics.IMPORTED, meter)
        context = added(readings, metrics.CREATED, metrics.IMPORTED, meter)
        for why in metrics.WHYS:
            value: int | str
            if isinstance(whole, str) or isinstance(context, str):
                value = whole if isinstance(whole, str) else context
            else:
                beyond = {metrics.ALL: whole - limit, metrics.CONTEXT: context}
                value = beyond.get(why, whole - limit - context)
            yield metrics.ABOVE_LIMIT_BYTES, meter, {"why": why, "meter": meter}, value
