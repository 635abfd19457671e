"""What a program holds at each of its points, and whether another way to set its mode agrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.shared.framework_programs import tensor_set
from allocmark.experiments.tensorflow_policy.limits import above_cells, send_above_limit
from allocmark.experiments.tensorflow_policy.program_part import PolicyPart, device_bytes
from allocmark.experiments.tensorflow_policy.readings import (
    BEFORE_DEVICE,
    HAS_ENDED,
    PointReading,
    Readings,
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
_NOT_QUICK = "left out of the quick profile"


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
        readings: dict[str, PointReading | str] = dict.fromkeys(left_out, _NOT_QUICK)
        try:
            with recorder.stage("points"):
                for point, reading in walk(
                    worker, watch, [p for p in metrics.POINTS if p not in left_out]
                ):
                    readings[point] = reading
                    if isinstance(reading, str) and point != metrics.EMPTIED:
                        recorder.failure(point, reading)
            _Sender(readings, gpu_bytes, recorder).send()
            recorder.reading(metrics.LIVE_BYTES, _SET, {}, sum(tensor_set(gpu_bytes)))
            for other in others:
                with recorder.stage("another way"):
                    _compare(other, watch, readings, recorder)
        finally:
            for each in self._workers:
                each.close()
        if self.subject == LIMIT:
            send_above_limit(readings, gpu_bytes, recorder)

    def cells(self) -> Iterator[Cell]:
        yield {}, (metrics.LIVE_BYTES,)
        for point in metrics.POINTS:
            for meter in METERS:
                axes = {"point": point, "meter": meter}
                yield axes, (metrics.HELD_BYTES, metrics.SINCE_DEVICE_BYTES)
            inside = (metrics.TAKEN_SHARE, metrics.HOST_BYTES, metrics.OTHER_GPUS_BYTES)
            yield {"point": point}, inside
            for counter in metrics.COUNTERS:
                yield {"point": point, "counter": counter}, (metrics.COUNTER_BYTES,)
        for after in metrics.AFTER:
            for meter in METERS:
                yield {"after": after, "meter": meter}, (metrics.RETURNED_BYTES,)
        if self.parameters["way"]:
            yield {"way": self.parameters["way"]}, (metrics.MODES_AGREE,)
        if self.subject == LIMIT:
            yield from above_cells()


def _compare(other_way: Worker, watch: Watch, readings: Readings, recorder: Recorder) -> None:
    axes: dict[str, Axis] = {"way": other_way.way}
    again = dict(
        walk(other_way, watch, (metrics.IMPORTED, metrics.LISTED, *COMPARED, metrics.ENDED))
    )
    pairs = [
        (
            added(readings, point, metrics.IMPORTED, NVML_DEVICE),
            added(again, point, metrics.IMPORTED, NVML_DEVICE),
        )
        for point in COMPARED
    ]
    reasons = [value for pair in pairs for value in pair if isinstance(value, str)]
    if reasons:
        recorder.figure(metrics.MODES_AGREE.missing(reasons[0], axes))
        return
    agree = int(all(first == second for first, second in pairs))
    recorder.reading(metrics.MODES_AGREE, NVML_DEVICE, axes, agree)


class _Sender:
    """Turns readings into figures."""

    def __init__(self, readings: Readings, gpu_bytes: int, recorder: Recorder) -> None:
        self._readings, self._gpu_bytes, self._recorder = readings, gpu_bytes, recorder

    def send(self) -> None:
        """Send every cell, with its value or its reason."""
        for point in metrics.POINTS:
            for meter in METERS:
                axes: dict[str, Axis] = {"point": point, "meter": meter}
                held = added(self._readings, point, metrics.IMPORTED, meter)
                self._recorder.reading(metrics.HELD_BYTES, meter, axes, held)
                since = added(self._readings, point, metrics.CREATED, meter)
                since = HAS_ENDED if point == metrics.ENDED else since
                self._recorder.reading(metrics.SINCE_DEVICE_BYTES, meter, axes, since)
                if meter == NVML_DEVICE:
                    share = held if isinstance(held, str) else held / self._gpu_bytes
                    self._recorder.reading(metrics.TAKEN_SHARE, meter, {"point": point}, share)
            self._inside(point)
        for after in metrics.AFTER:
            for meter in METERS:
                more = added(self._readings, after, metrics.LIVE_PEAK, meter)
                if not isinstance(more, str):
                    more = -more if more <= 0 else _MORE
                axes = {"after": after, "meter": meter}
                self._recorder.reading(metrics.RETURNED_BYTES, meter, axes, more)

    def _inside(self, point: str) -> None:
        """Send what only the process itself knows, and what was taken on other GPUs."""
        reading = self._readings.get(point, BEFORE_DEVICE)
        host: int | str
        others: int | str
        counters: Mapping[str, int | str]
        if isinstance(reading, str):
            counters = dict.fromkeys(metrics.COUNTERS, reading)
            host = others = reading
        else:
            counters = {
                counter: reading.counters.get(counter, _why_no_counter(point))
                for counter in metrics.COUNTERS
            }
            host = HAS_ENDED if reading.host is None else reading.host
            others = self._on_other_gpus(reading)
        axes: dict[str, Axis] = {"point": point}
        for counter, value in counters.items():
            place = {**axes, "counter": counter}
            self._recorder.reading(metrics.COUNTER_BYTES, _COUNTER_METER, place, value)
        self._recorder.reading(metrics.HOST_BYTES, _HOST, axes, host)
        self._recorder.reading(metrics.OTHER_GPUS_BYTES, NVML_DEVICE, axes, others)

    def _on_other_gpus(self, now: PointReading) -> int | str:
        begin = self._readings[metrics.IMPORTED]
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
