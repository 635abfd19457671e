"""The points of one program, read from outside by NVML and from inside by everything else.

The process that reads holds no context of its own, so that it also sees the one it watches end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.experiments.core.recorder import in_words
from allocmark.experiments.tensorflow_policy.worker import Worker
from allocmark.meters.memory import MemoryMeters, settled
from allocmark.schema.device_meters import MEM_GET_INFO, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import tensorflow_policy as metrics
from allocmark.system.errors import NoGpuError, NotMeasurableError

HAS_ENDED = "the process that could be asked has ended"
BEFORE_DEVICE = "before the device exists"
_ORDERS = {
    metrics.LISTED: "list",
    metrics.CREATED: "create",
    metrics.FIRST_TENSOR: "first",
    metrics.LIVE_PEAK: "take",
    metrics.DROPPED: "drop",
    metrics.EMPTIED: "empty",
}
_WAITS_S = {metrics.AFTER_1_S: 1.0, metrics.AFTER_5_S: 4.0}
"""Waited since the point before; both ends count from the drop."""
_MOST_GPUS = 16
_NO_START = "cudaMemGetInfo cannot be asked before the context exists: no reading to start from"
_DISTURBED = "another process on this GPU changed what it holds meanwhile"


@dataclass(frozen=True, slots=True)
class PointReading:
    """What one point shows: bytes by meter or the reason, counters, host memory."""

    shown: Mapping[str, int | str]
    counters: Mapping[str, int]
    host: int | None
    others: int | None


Readings = Mapping[str, PointReading | str]
"""By point: what it showed, or why it was not read."""
Value = tuple[Metric, str, Mapping[str, Axis], float | str]
"""A figure of readings: its metric, meter and axes, and the value or the reason why not."""


class Watch:
    """Reads one worker's points. Raises `NoGpuError` without NVML."""

    def __init__(self, device: int) -> None:
        self._meters = MemoryMeters(device)
        self._others = list(_other_meters(device))
        self._neighbours: Mapping[int, int | None] = {}

    def start(self, worker: Worker) -> None:
        """Note what else is on the GPU."""
        settled(self._meters)
        self._neighbours = self._without(worker)

    def read(self, worker: Worker, inside: Mapping[str, Any] | None) -> PointReading:
        """Return a reading; `inside` is what the worker says, None after its end."""
        read = self._meters.read(worker.pid) if inside else settled(self._meters)
        shown: dict[str, int | str] = {}
        for meter in (NVML_PROCESS, NVML_DEVICE):
            value = read[meter]
            shown[meter] = value if value is not None else self._meters.why(meter) or "not read"
        shown[MEM_GET_INFO] = inside["used"] if inside else HAS_ENDED
        if self._without(worker) != self._neighbours:
            shown = {m: v if m == NVML_PROCESS else _DISTURBED for m, v in shown.items()}
        others = [meters.read()[NVML_DEVICE] or 0 for meters in self._others]
        return PointReading(
            shown=shown,
            counters=inside["counters"] if inside else {},
            host=inside["host"] if inside else None,
            others=sum(others) if self._others else None,
        )

    def _without(self, worker: Worker) -> Mapping[int, int | None]:
        return {pid: n for pid, n in self._meters.neighbours().items() if pid != worker.pid}


def walk(
    worker: Worker, watch: Watch, points: Sequence[str]
) -> Iterator[tuple[str, PointReading | str]]:
    """Go through the points; yields each with its reading, or with the reason why there is none."""
    try:
        worker.answer()  # It has imported.
    except NotMeasurableError as error:
        yield from ((point, str(error)) for point in points)
        return
    watch.start(worker)
    broken: str | None = None
    for point in points:
        if broken:
            yield point, broken
            continue
        if point == metrics.ENDED:
            worker.close()
            yield point, watch.read(worker, None)
            continue
        try:
            time.sleep(_WAITS_S.get(point, 0.0))
            if point in _ORDERS:
                worker.order(_ORDERS[point])
            yield point, watch.read(worker, worker.order("read"))
        except NotMeasurableError as error:
            if point != metrics.EMPTIED:
                broken = f"not reached: {point} could not be done ({in_words(error)})"
            yield point, str(error)


def added(readings: Readings, point: str, since: str, meter: str) -> int | str:
    """Return the bytes that one meter shows more at a point than at another, or the reason."""
    now, then = readings.get(point, BEFORE_DEVICE), readings.get(since, BEFORE_DEVICE)
    if isinstance(now, str):
        return now
    if isinstance(then, str):
        return then
    if metrics.POINTS.index(point) < metrics.POINTS.index(since):
        return BEFORE_DEVICE
    if meter == MEM_GET_INFO and since == metrics.IMPORTED:
        return HAS_ENDED if point == metrics.ENDED else _NO_START
    end, begin = now.shown[meter], then.shown[meter]
    if meter == NVML_PROCESS:
        # NVML lists a process while it has a context: before and after, it holds nothing.
        begin = 0 if since == metrics.IMPORTED and isinstance(begin, str) else begin
        without = point in (metrics.IMPORTED, metrics.LISTED, metrics.ENDED)
        end = 0 if without and isinstance(end, str) else end
    if isinstance(end, str):
        return end
    return begin if isinstance(begin, str) else end - begin


def _other_meters(device: int) -> Iterator[MemoryMeters]:
    for ordinal in range(_MOST_GPUS):
        if ordinal != device:
            try:
                yield MemoryMeters(ordinal)
            except NoGpuError:
                return
