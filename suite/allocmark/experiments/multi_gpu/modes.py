"""TensorFlow's modes with one GPU visible and with all: bytes on each, time to the first tensor."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from allocmark.allocators.tensorflow_gpu.causes import check_host_memory
from allocmark.experiments.core.recorder import CLOCK, Recorder, in_words
from allocmark.experiments.multi_gpu.devices import Cards, Cell, Shown, missing, send, tell
from allocmark.experiments.multi_gpu.devices import cells as card_cells
from allocmark.experiments.shared.framework_programs import GREEDY, LIMIT, TensorFlow
from allocmark.schema.device_meters import NVML_DEVICE
from allocmark.schema.figure import Axis, Figure
from allocmark.system.units import MIB

ONE, ALL = VISIBLE = ("one", "all")
CREATED, FIRST, EACH = POINTS = (
    "device created",
    "first tensor on GPU 0",
    "first tensor on every GPU",
)
SECONDS = {CREATED: "device_seconds", FIRST: "first_tensor_seconds", EACH: "other_tensors_seconds"}
"""Of each step; the last one is the tensors on all GPUs but the first."""
_ONE_VISIBLE = "one GPU is visible"
_NOT_REACHED = "not reached: {} could not be done ({})"


def points_of(visible: str) -> tuple[str, ...]:
    """Return the points of a program that sees one GPU, or all."""
    return POINTS if visible == ALL else POINTS[:2]


def measure_mode(
    program: TensorFlow, visible: str, cards: Cards, seen: Sequence[int], recorder: Recorder
) -> None:
    """Go through the points, each timed and read; what fails is the reason of those after it."""
    total = cards.total_bytes()

    def create() -> None:
        program.list_devices()
        program.create_device(total[0])

    def others() -> None:
        if program.mode in (GREEDY, LIMIT):  # A limit is set on the first GPU only.
            check_host_memory(sum(total[gpu] for gpu in seen[1:]))
        for logical in range(1, len(seen)):
            program.tensors.append(program.tensor(MIB, logical))

    steps = {CREATED: create, FIRST: lambda: program.take([MIB]), EACH: others}
    failed: str | None = None
    if visible == ONE:
        missing([_no_others()], _ONE_VISIBLE, recorder)
    for point in points_of(visible):
        axes: dict[str, Axis] = {"visible": visible, "point": point}
        if failed:
            missing(_point_cells(axes, len(total)), failed, recorder)
            continue
        with recorder.stage(f"{visible}: {point}"):
            try:
                begin = time.perf_counter()
                steps[point]()
                seconds = time.perf_counter() - begin
            except Exception as error:
                missing(_point_cells(axes, len(total)), in_words(error), recorder)
                failed = _NOT_REACHED.format(point, in_words(error))
                raise
            _send(axes, seconds, cards.read(), total, recorder)


def _send(
    axes: Mapping[str, Axis],
    seconds: float,
    shown: Sequence[Shown],
    total: Sequence[int],
    recorder: Recorder,
) -> None:
    metric = SECONDS[str(axes["point"])]
    place: dict[str, Axis] = {"visible": axes["visible"]}
    recorder.figure(Figure(metric, "s", "time", CLOCK, place, seconds))
    send("mode", shown, axes, recorder)
    for gpu, one in enumerate(shown):
        held = one.added[NVML_DEVICE]
        share = held if isinstance(held, str) else held / total[gpu]
        tell("mode_share", "share", NVML_DEVICE, {**axes, "gpu": gpu}, share, recorder)


def _point_cells(axes: Mapping[str, Axis], gpus: int) -> Iterator[Cell]:
    yield {"visible": axes["visible"]}, {SECONDS[str(axes["point"])]: "s"}
    yield from card_cells("mode", gpus, axes)
    for gpu in range(gpus):
        yield {**axes, "gpu": gpu}, {"mode_share": "share"}


def _no_others() -> Cell:
    return {"visible": ONE}, {SECONDS[EACH]: "s"}


def mode_cells(visible: str, gpus: int) -> Iterator[Cell]:
    """Yield the cells of one process."""
    if visible == ONE:
        yield _no_others()
    for point in points_of(visible):
        yield from _point_cells({"visible": visible, "point": point}, gpus)
