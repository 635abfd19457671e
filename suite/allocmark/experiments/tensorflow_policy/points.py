"""What a program holds at each of its points, and whether another way to set its mode agrees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.shared.framework_programs import tensor_set
from allocmark.experiments.tensorflow_policy.limits import above_limit
from allocmark.experiments.tensorflow_policy.program_part import PolicyPart, device_bytes
from allocmark.experiments.tensorflow_policy.readings import (
    BEFORE_DEVICE,
    HAS_ENDED,
    PointReading,
    Readings,
    Value,
    Watch,
    added,
    walk,
)
from allocmark.experiments.tensorflow_policy.worker import Worker
from allocmark.schema.device_meters import METERS, NVML_DEVICE
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import tensorflow_policy as metrics

COMPARED = (metrics.CREATED, metrics.FIRST_TENSOR, metrics.LIVE_PEAK, metrics.DROPPED)
"""Where two ways to set a mode are compared."""
_HOST, _SET = "/proc/self/statm", "the program"
_COUNTER_METER = "framework counters"
_NOT_KEPT = "TensorFlow's public API does not tell it"
_MORE = "more is in use than at the live peak"
_ONE_GPU = "there is one GPU here"
NOT_QUICK = "left out of the quick profile"


class Points(PolicyPart):
    """Every point, then whether another way to set the mode takes the same.

    Parameters: ``way``, another one or None; ``quick``, to leave out the longest wait.
    """

    name = "points"

    def prepare(self) -> None:
        ways = [way for way in ("", self.parameters["way"]) if way is not None]
        gpu_bytes = device_bytes(self.device)
        self._workers = [Worker(self.subject, self.device, gpu_bytes, way) for way in ways]

    def measure(self, recorder: Recorder) -> None:
        gpu_bytes = device_bytes(self.device)
        worker, *others = self._workers
        watch = Watch(self.device)
        left_out = (metrics.AFTER_5_S,) if self.parameters["quick"] else ()
        readings: dict[str, PointReading | str] = dict.fromkeys(left_out, NOT_QUICK)
        try:
            with recorder.stage("points"):
                for point, reading in walk(
                    worker, watch, [p for p in metrics.POINTS if p not in left_out]
                ):
                    readings[point] = reading
                    if isinstance(reading, str) and point != metrics.EMPTIED:
                        recorder.failure(point, reading)
            for metric, meter, axes, value in self._values(readings, gpu_bytes):
                recorder.reading(metric, meter, axes, value)
            recorder.reading(metrics.LIVE_BYTES, _SET, {}, sum(tensor_set(gpu_bytes)))
            for other in others:
                with recorder.stage("another way"):
                    _compare(other, watch, readings, recorder)
        finally:
            for each in self._workers:
                each.close()

    def cells(self) -> Iterator[Cell]:
        yield {}, (metrics.LIVE_BYTES,)
        for metric, _, axes, _ in self._values({}, gpu_bytes=1):
            yield axes, (metric,)
        if self.parameters["way"]:
            yield {"way": self.parameters["way"]}, (metrics.MODES_AGREE,)

    def _values(self, readings: Readings, gpu_bytes: int) -> Iterator[Value]:
        """Yield every figure of the points; without readings each is a reason."""
        for point in metrics.POINTS:
            yield from _outside(readings, point, gpu_bytes)
            yield from _inside(readings, point)
        for after, meter in product(metrics.AFTER, METERS):
            more = added(readings, after, metrics.LIVE_PEAK, meter)
            if not isinstance(more, str):
                more = -more if more <= 0 else _MORE
            yield metrics.RETURNED_BYTES, meter, {"after": after, "meter": meter}, more
        if self.subject == LIMIT:
            yield from above_limit(readings, gpu_bytes)


def _compare(other_way: Worker, watch: Watch, readings: Readings, recorder: Recorder) -> None:
    axes: dict[str, Axis] = {"way": other_way.way}
    points = metrics.IMPORTED, metrics.LISTED, *COMPARED, metrics.ENDED
    both: tuple[Readings, ...] = readings, dict(walk(other_way, watch, points))
    pairs = [
        [added(each, point, metrics.IMPORTED, NVML_DEVICE) for each in both] for point in COMPARED
    ]
    reasons = [value for pair in pairs for value in pair if isinstance(value, str)]
    if reasons:
        recorder.figure(metrics.MODES_AGREE.missing(reasons[0], axes))
        return
    agree = int(all(first == second for first, second in pairs))
    recorder.reading(metrics.MODES_AGREE, NVML_DEVICE, axes, agree)


def _outside(readings: Readings, point: str, gpu_bytes: int) -> Iterator[Value]:
    """Yield what the meters of device memory show at a point."""
    for meter in METERS:
        axes = {"point": point, "meter": meter}
        held = added(readings, point, metrics.IMPORTED, meter)
        yield metrics.HELD_BYTES, meter, axes, held
        since = added(readings, point, metrics.CREATED, meter)
        since = HAS_ENDED if point == metrics.ENDED else since
        yield metrics.SINCE_DEVICE_BYTES, meter, axes, since
        if meter == NVML_DEVICE:
            share = held if isinstance(held, str) else held / gpu_bytes
            yield metrics.TAKEN_SHARE, meter, {"point": point}, share


def _inside(readings: Readings, point: str) -> Iterator[Value]:
    """Yield what only the process itself knows, and what was taken on other GPUs."""
    reading = readings.get(point, BEFORE_DEVICE)
    for counter in metrics.COUNTERS:
        axes = {"point": point, "counter": counter}
        if isinstance(reading, str):
            yield metrics.COUNTER_BYTES, _COUNTER_METER, axes, reading
        else:
            value = reading.counters.get(counter, _why_no_counter(point))
            yield metrics.COUNTER_BYTES, _COUNTER_METER, axes, value
    host: int | str
    others: int | str
    if isinstance(reading, str):
        host = others = reading
    else:
        host = HAS_ENDED if reading.host is None else reading.host
        others = _on_other_gpus(readings[metrics.IMPORTED], reading)
    yield metrics.HOST_BYTES, _HOST, {"point": point}, host
    yield metrics.OTHER_GPUS_BYTES, NVML_DEVICE, {"point": point}, others


def _on_other_gpus(begin: PointReading | str, now: PointReading) -> int | str:
    if isinstance(begin, str):
        return begin
    if begin.others is None or now.others is None:
        return _ONE_GPU
    return now.others - begin.others


def _why_no_counter(point: str) -> str:
    if point == metrics.ENDED:
        return HAS_ENDED
    later = metrics.POINTS.index(point) < metrics.POINTS.index(metrics.CREATED)
    return BEFORE_DEVICE if later else _NOT_KEPT
