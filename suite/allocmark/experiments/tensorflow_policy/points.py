"""The points of one program, read from outside by NVML and from inside by everything else.

The process that reads holds no context of its own, so that it also sees the one it watches end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.shared.framework_programs import COUNTERS, tensor_set
from allocmark.experiments.tensorflow_policy.worker import Worker
from allocmark.machine.nvml import open_device
from allocmark.meters.memory import MemoryMeters, settled
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import NoGpuError, NotMeasurableError

IMPORTED, LISTED, CREATED, FIRST, LIVE = (
    *("imported", "devices listed", "device created", "first tensor", "live peak"),
)
DROPPED, AFTER_1, AFTER_5, EMPTIED, ENDED = (
    *("all dropped", "1 s later", "5 s later", "cache emptied", "process ended"),
)
POINTS = (IMPORTED, LISTED, CREATED, FIRST, LIVE, DROPPED, AFTER_1, AFTER_5, EMPTIED, ENDED)
"""In the order of the program."""
AFTER = (DROPPED, AFTER_1, AFTER_5, EMPTIED, ENDED)
COMPARED = (CREATED, FIRST, LIVE, DROPPED)
"""Where two ways to set a mode are compared."""
OTHER_GPUS = "other GPUs"

_ORDERS = {LISTED: "list", CREATED: "create", FIRST: "first", LIVE: "take", DROPPED: "drop"}
_ORDERS |= {EMPTIED: "empty"}
_WAITS_S = {AFTER_1: 1.0, AFTER_5: 4.0}
"""Waited since the point before; both ends count from the drop."""
_HOST, _SET = "/proc/self/statm", "the program"
_COUNTER_METER = "framework counters"
_MOST_GPUS = 16
_NO_START = "cudaMemGetInfo cannot be asked before the context exists: no reading to start from"
_HAS_ENDED = "the process that could be asked has ended"
_LATER = "before the device exists"
_NOT_KEPT = "TensorFlow's public API does not tell it"
_DISTURBED = "another process on this GPU changed what it holds meanwhile"
_MORE = "more is in use than at the live peak"
_ONE_GPU = "there is one GPU here"
_NOT_QUICK = "left out of the quick profile"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one point shows: bytes by meter or the reason, counters, host memory."""

    shown: Mapping[str, int | str]
    counters: Mapping[str, int]
    host: int | None
    others: int | None


Readings = Mapping[str, Reading | str]
"""By point: what it showed, or why it was not read."""


def card_bytes(device: int) -> int:
    """Return the whole memory of the card, as NVML tells it."""
    nvml, handle = open_device(device)
    return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)


class Watch:
    """Reads one worker's points. Raises `NoGpuError` without NVML."""

    def __init__(self, device: int) -> None:
        self._meters = MemoryMeters(device)
        self._others = list(_other_meters(device))
        self._neighbours: Mapping[int, int | None] = {}

    def start(self, worker: Worker) -> None:
        """Note what else is on the card."""
        settled(self._meters)
        self._neighbours = self._without(worker)

    def read(self, worker: Worker, inside: Mapping[str, Any] | None) -> Reading:
        """Return a reading; `inside` is what the worker says, None after its end."""
        read = self._meters.read(worker.pid) if inside else settled(self._meters)
        shown: dict[str, int | str] = {}
        for meter in (NVML_PROCESS, NVML_DEVICE):
            value = read[meter]
            shown[meter] = value if value is not None else self._meters.why(meter) or "not read"
        shown[MEM_GET_INFO] = inside["used"] if inside else _HAS_ENDED
        if self._without(worker) != self._neighbours:
            shown = {m: v if m == NVML_PROCESS else _DISTURBED for m, v in shown.items()}
        others = [one.read()[NVML_DEVICE] or 0 for one in self._others]
        return Reading(
            shown,
            inside["counters"] if inside else {},
            inside["host"] if inside else None,
            sum(others) if self._others else None,
        )

    def _without(self, worker: Worker) -> Mapping[int, int | None]:
        return {pid: n for pid, n in self._meters.neighbours().items() if pid != worker.pid}


def walk(
    worker: Worker, watch: Watch, points: Sequence[str]
) -> Iterator[tuple[str, Reading | str]]:
    """Go through the points; yields each with its reading, or with the reason why there is none."""
    worker.answer()  # It has imported.
    watch.start(worker)
    broken: str | None = None
    for point in points:
        if broken:
            yield point, broken
            continue
        if point == ENDED:
            worker.close()
            yield point, watch.read(worker, None)
            continue
        try:
            time.sleep(_WAITS_S.get(point, 0.0))
            if point in _ORDERS:
                worker.order(_ORDERS[point])
            yield point, watch.read(worker, worker.order("read"))
        except NotMeasurableError as error:
            if point != EMPTIED:
                broken = f"not reached: {point} could not be done ({in_words(error)})"
            yield point, str(error)


def measure_points(
    worker: Worker, other_way: Worker | None, device: int, quick: bool, recorder: Recorder
) -> Readings:
    """Send every point, then whether another way to set the mode takes the same.

    Returns the reading of each point, or the reason why it has none.
    """
    watch = Watch(device)
    card = card_bytes(device)
    left_out = (AFTER_5,) if quick else ()
    readings: dict[str, Reading | str] = dict.fromkeys(left_out, _NOT_QUICK)
    with recorder.stage("points"):
        for point, reading in walk(worker, watch, [p for p in POINTS if p not in left_out]):
            readings[point] = reading
            if isinstance(reading, str) and point != EMPTIED:
                recorder.failure(point, reading)
    _Sender(readings, card, recorder).send()
    live = sum(tensor_set(card))
    recorder.figure(Figure("live_bytes", "bytes", "exact", _SET, {}, live))
    if other_way:
        with recorder.stage("another way"):
            _compare(other_way, watch, readings, recorder)
    return readings


def _compare(other_way: Worker, watch: Watch, readings: Readings, recorder: Recorder) -> None:
    axes: dict[str, Axis] = {"way": other_way.way}
    again = dict(walk(other_way, watch, (IMPORTED, LISTED, *COMPARED, ENDED)))
    pairs = [
        (added(readings, point, IMPORTED, NVML_DEVICE), added(again, point, IMPORTED, NVML_DEVICE))
        for point in COMPARED
    ]
    reasons = [one for pair in pairs for one in pair if isinstance(one, str)]
    if reasons:
        recorder.missing("modes_agree", "count", reasons[0], axes)
        return
    agree = int(all(one == other for one, other in pairs))
    recorder.figure(Figure("modes_agree", "count", "exact", NVML_DEVICE, axes, agree))


def added(readings: Readings, point: str, since: str, meter: str) -> int | str:
    """Return the bytes that one meter shows more at a point than at another, or the reason."""
    now, then = readings.get(point, _LATER), readings.get(since, _LATER)
    if isinstance(now, str):
        return now
    if isinstance(then, str):
        return then
    if POINTS.index(point) < POINTS.index(since):
        return _LATER
    if meter == MEM_GET_INFO and since == IMPORTED:
        return _HAS_ENDED if point == ENDED else _NO_START
    end, begin = now.shown[meter], then.shown[meter]
    if meter == NVML_PROCESS:
        # NVML lists a process while it has a context: before and after, it holds nothing.
        begin = 0 if since == IMPORTED and isinstance(begin, str) else begin
        end = 0 if point in (IMPORTED, LISTED, ENDED) and isinstance(end, str) else end
    if isinstance(end, str):
        return end
    return begin if isinstance(begin, str) else end - begin


class _Sender:
    """Turns readings into figures."""

    def __init__(self, readings: Readings, card: int, recorder: Recorder) -> None:
        self._readings, self._card, self._recorder = readings, card, recorder

    def send(self) -> None:
        """Send every cell, with its value or its reason."""
        for point in POINTS:
            for meter in METERS:
                axes: dict[str, Axis] = {"point": point, "meter": meter}
                held = self._added(point, IMPORTED, meter)
                self._tell("held_bytes", meter, axes, held)
                since = _HAS_ENDED if point == ENDED else self._added(point, CREATED, meter)
                self._tell("since_device_bytes", meter, axes, since)
                if meter == NVML_DEVICE:
                    share = held if isinstance(held, str) else held / self._card
                    self._tell("taken_share", meter, {"point": point}, share, "share")
            self._inside(point)
        for after in AFTER:
            for meter in METERS:
                more = self._added(after, LIVE, meter)
                if not isinstance(more, str):
                    more = -more if more <= 0 else _MORE
                self._tell("returned_bytes", meter, {"after": after, "meter": meter}, more)

    def _added(self, point: str, since: str, meter: str) -> int | str:
        return added(self._readings, point, since, meter)

    def _inside(self, point: str) -> None:
        """Send what only the process itself knows, and what was taken on other GPUs."""
        reading = self._readings.get(point, _LATER)
        host: int | str
        others: int | str
        counters: Mapping[str, int | str]
        if isinstance(reading, str):
            counters = dict.fromkeys(COUNTERS, reading)
            host = others = reading
        else:
            counters = {
                counter: reading.counters.get(counter, _why_no_counter(point))
                for counter in COUNTERS
            }
            host = _HAS_ENDED if reading.host is None else reading.host
            others = self._on_other_gpus(reading)
        for counter, told in counters.items():
            self._tell("counter_bytes", _COUNTER_METER, {"point": point, "counter": counter}, told)
        self._tell("host_bytes", _HOST, {"point": point}, host)
        self._tell("other_gpus_bytes", NVML_DEVICE, {"point": point}, others)

    def _on_other_gpus(self, now: Reading) -> int | str:
        begin = self._readings[IMPORTED]
        if isinstance(begin, str):
            return begin
        if begin.others is None or now.others is None:
            return _ONE_GPU
        return now.others - begin.others

    def _tell(
        self,
        metric: str,
        meter: str,
        axes: Mapping[str, Axis],
        told: float | str,
        unit: str = "bytes",
    ) -> None:
        given: dict[str, Any] = {"reason": told} if isinstance(told, str) else {"value": told}
        self._recorder.figure(Figure(metric, unit, "sampled", meter, axes, **given))


def _why_no_counter(point: str) -> str:
    if point == ENDED:
        return _HAS_ENDED
    later = POINTS.index(point) < POINTS.index(CREATED)
    return _LATER if later else _NOT_KEPT


def _other_meters(device: int) -> Iterator[MemoryMeters]:
    for ordinal in range(_MOST_GPUS):
        if ordinal != device:
            try:
                yield MemoryMeters(ordinal)
            except NoGpuError:
                return


def cells() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the axes of every cell of the points, each with its metrics and units."""
    yield {}, {"live_bytes": "bytes"}
    for point in POINTS:
        for meter in METERS:
            both = {"held_bytes": "bytes", "since_device_bytes": "bytes"}
            yield {"point": point, "meter": meter}, both
        yield (
            {"point": point},
            {"taken_share": "share", "host_bytes": "bytes", "other_gpus_bytes": "bytes"},
        )
        for counter in COUNTERS:
            yield {"point": point, "counter": counter}, {"counter_bytes": "bytes"}
    for after in AFTER:
        for meter in METERS:
            yield {"after": after, "meter": meter}, {"returned_bytes": "bytes"}
