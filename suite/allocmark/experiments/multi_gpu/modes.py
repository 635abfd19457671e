"""TensorFlow's modes with one GPU visible and with all: bytes on each, time to the first tensor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from allocmark.allocators.tensorflow_gpu import GREEDY, LIMIT
from allocmark.allocators.tensorflow_gpu.causes import check_host_memory
from allocmark.experiments.core.recorder import CLOCK, Cell, Recorder, in_words
from allocmark.experiments.multi_gpu.device_part import DevicePart
from allocmark.experiments.multi_gpu.devices import DeviceMetrics, Devices, DeviceState
from allocmark.experiments.shared.framework_programs import TensorFlow
from allocmark.schema.device_meters import NVML_DEVICE
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.schema.metrics.multi_gpu import CREATED, EACH_TENSOR, FIRST_TENSOR, ONE, POINTS
from allocmark.system.units import MIB

HELD = DeviceMetrics(metrics.MODE_BYTES, metrics.MODE_CONTEXT, metrics.MODE_LISTED)
SECONDS = {
    CREATED: metrics.DEVICE_SECONDS,
    FIRST_TENSOR: metrics.FIRST_TENSOR_SECONDS,
    EACH_TENSOR: metrics.OTHER_TENSORS_SECONDS,
}
"""Of each step; the last one is the tensors on all GPUs but the first."""
_ONE_VISIBLE = "one GPU is visible"
_NOT_REACHED = "not reached: {} could not be done ({})"
_NO_OTHERS: Cell = ({"visible": ONE}, (SECONDS[EACH_TENSOR],))


class Mode(DevicePart):
    """One process in a mode; parameter ``visible`` says which GPUs it sees."""

    name = "mode"

    def __init__(self, subject: str, parameters: Mapping[str, object], device: int = 0) -> None:
        super().__init__(subject, parameters, device)
        self.visible = str(parameters["visible"])
        self._points = POINTS[:2] if self.visible == ONE else POINTS

    @property
    def seen(self) -> Sequence[int]:
        return [0] if self.visible == ONE else super().seen

    def prepare(self) -> None:
        self._program = TensorFlow(self.subject, 0)
        self._program.load()

    def measure(self, recorder: Recorder) -> None:
        self.measure_program(self._program, Devices(self.uuids, self.seen), recorder)

    def measure_program(self, program: TensorFlow, devices: Devices, recorder: Recorder) -> None:
        """Go through the points, each timed and read; one that fails is the reason of the rest."""
        total = devices.total_bytes()

        def create() -> None:
            program.list_devices()
            program.create_device(total[0])

        def others() -> None:
            if program.mode in (GREEDY, LIMIT):  # A limit is set on the first GPU only.
                check_host_memory(sum(total[gpu] for gpu in self.seen[1:]))
            for logical in range(1, len(self.seen)):
                program.tensors.append(program.tensor(MIB, logical))

        steps = {CREATED: create, FIRST_TENSOR: lambda: program.take([MIB]), EACH_TENSOR: others}
        failed: str | None = None
        if self.visible == ONE:
            recorder.unfilled([_NO_OTHERS], _ONE_VISIBLE)
        for point in self._points:
            if failed:
                recorder.unfilled(self._point_cells(point), failed)
                continue
            with recorder.stage(f"{self.visible}: {point}"):
                try:
                    begin = time.perf_counter()
                    steps[point]()
                    seconds = time.perf_counter() - begin
                except Exception as error:
                    recorder.unfilled(self._point_cells(point), in_words(error))
                    failed = _NOT_REACHED.format(point, in_words(error))
                    raise
                self._send(point, seconds, devices.read(), total, recorder)

    def cells(self) -> Iterator[Cell]:
        if self.visible == ONE:
            yield _NO_OTHERS
        for point in self._points:
            yield from self._point_cells(point)

    def _point_cells(self, point: str) -> Iterator[Cell]:
        gpus = len(self.uuids)
        axes: dict[str, Axis] = {"visible": self.visible, "point": point}
        yield {"visible": self.visible}, (SECONDS[point],)
        yield from HELD.cells(gpus, axes)
        for gpu in range(gpus):
            yield {**axes, "gpu": gpu}, (metrics.MODE_SHARE,)

    def _send(
        self,
        point: str,
        seconds: float,
        states: Sequence[DeviceState],
        total: Sequence[int],
        recorder: Recorder,
    ) -> None:
        recorder.reading(SECONDS[point], CLOCK, {"visible": self.visible}, seconds)
        axes: dict[str, Axis] = {"visible": self.visible, "point": point}
        HELD.send(states, axes, recorder)
        for gpu, state in enumerate(states):
            held = state.added[NVML_DEVICE]
            share = held if isinstance(held, str) else held / total[gpu]
            recorder.reading(metrics.MODE_SHARE, NVML_DEVICE, {**axes, "gpu": gpu}, share)
