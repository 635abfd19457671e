"""Two processes on one card: the first takes its set and keeps it, then comes the second.

One first process serves all seconds, one after another: it only holds what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.tensorflow_policy.points import card_bytes
from allocmark.experiments.tensorflow_policy.sharing import WAYS
from allocmark.experiments.tensorflow_policy.worker import Worker
from allocmark.meters.memory import MemoryMeters, Reading, settled
from allocmark.schema.device_meters import NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import NotMeasurableError

FIRST, SECOND = PROCESSES = ("first", "second")
_METERS = (NVML_PROCESS, NVML_DEVICE)
_CLOCK, _PROGRAM = "perf_counter", "the program"
_AHEAD = 2
"""How many of the next processes import meanwhile."""
_NOT_SUPPORTED = "not supported"
"""In CUDA's own words (801): the driver has no such thing, which says nothing about the memory."""
_NOTHING = "the second process did not get its set: there is nothing to compare"
_IPC = {"ipc_exported": "count", "ipc_opened": "count", "ipc_added_bytes": "bytes"}

Cells = Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]


class Pairs:
    """The processes of one first subject; made ahead of their turn, as far as that helps."""

    def __init__(self, first: str, seconds: Sequence[str], device: int) -> None:
        self.first_name, self._device = first, device
        self.card = card_bytes(device)
        self._waiting = list(seconds)
        self._started: list[Worker] = []
        self.first = self._new(first)
        self._refill()

    def seconds(self) -> Iterator[Worker]:
        """Yield the second processes, each closed as the next is asked for."""
        while self._started:
            worker = self._started.pop(0)
            self._refill()
            with worker:
                yield worker

    def close(self) -> None:
        """End all."""
        for worker in (self.first, *self._started):
            worker.close()

    def _refill(self) -> None:
        while self._waiting and len(self._started) < _AHEAD:
            self._started.append(self._new(self._waiting.pop(0)))

    def _new(self, subject: str) -> Worker:
        return Worker(subject, self._device, self.card)


def measure_pairs(pairs: Pairs, device: int, recorder: Recorder) -> None:
    """Let the first take its set, then one second after another; the last thing is sharing."""
    meters = MemoryMeters(device)
    try:
        empty = settled(meters)
        pairs.first.answer()
        ran = pairs.first.order("run")
        if ran["error"]:
            recorder.told("first alone", ran["error"])
        held = _held(meters, pairs.first, empty)
        for worker in pairs.seconds():
            with recorder.stage(f"second: {worker.subject}"):
                _one(pairs, worker, meters, ran, held, recorder)
    finally:
        pairs.close()


def _held(meters: MemoryMeters, worker: Worker, since: Reading) -> dict[str, int | str]:
    """Return what a process holds by NVML's list, and what the device has more since then."""
    now = meters.read(worker.pid)
    told: dict[str, int | str] = {}
    for meter in _METERS:
        value, before = now[meter], since[meter] if meter == NVML_DEVICE else 0
        if value is None or before is None:
            told[meter] = meters.why(meter) or "not read"
        else:
            told[meter] = value - before
    return told


def _one(
    pairs: Pairs,
    worker: Worker,
    meters: MemoryMeters,
    first: Mapping[str, float],
    held: Mapping[str, int | str],
    recorder: Recorder,
) -> None:
    second: dict[str, Axis] = {"second": worker.subject}
    before = settled(meters)
    try:
        worker.answer()
        ran = worker.order("run")
    except NotMeasurableError as error:
        for axes, metrics in pair_cells([worker.subject]):
            for metric, unit in metrics.items():
                recorder.missing(metric, unit, str(error), axes)
        raise
    added = _held(meters, worker, before)
    failed = int(ran["error"] is not None)
    recorder.figure(Figure("pair_failed", "count", "exact", _PROGRAM, second, failed))
    recorder.figure(Figure("pair_seconds", "s", "time", _CLOCK, second, ran["seconds"]))
    if ran["error"]:
        recorder.told(f"second: {worker.subject}", ran["error"])
    for process, live, bytes_held in (
        (FIRST, first["live"], held),
        (SECOND, ran["live"], added),
    ):
        axes = {**second, "process": process}
        recorder.figure(Figure("pair_live_bytes", "bytes", "exact", _PROGRAM, axes, live))
        for meter, told in bytes_held.items():
            _send("pair_bytes", meter, {**axes, "meter": meter}, told, recorder)
    if worker.subject == pairs.first_name:
        _send_shared(held, added, bool(failed), recorder)
        _share(pairs, worker, meters, recorder)


def _send_shared(
    held: Mapping[str, int | str], added: Mapping[str, int | str], failed: bool, recorder: Recorder
) -> None:
    """Send by how much the second process added less than the first.

    NVML's list of processes comes first: the device also has what the driver keeps for all.
    """
    shared: int | str = _NOTHING
    meter = NVML_PROCESS
    for meter in _METERS if not failed else ():
        alone, second = held[meter], added[meter]
        if isinstance(alone, int) and isinstance(second, int):
            shared = max(0, alone - second)
            break
        shared = alone if isinstance(alone, str) else second
    _send("shared_bytes", meter, {}, shared, recorder)


def _share(pairs: Pairs, worker: Worker, meters: MemoryMeters, recorder: Recorder) -> None:
    """Send whether a second process of the kind can open the first one's memory."""
    for way in WAYS:
        axes: dict[str, Axis] = {"way": way}
        try:
            handle = pairs.first.order("export", way)
        except NotMeasurableError as error:
            text = str(error)
            _send_ipc(way, (text if _NOT_SUPPORTED in text else 0, text, text), axes, recorder)
            continue
        before = settled(meters)
        try:
            worker.order("open", way, handle)
        except NotMeasurableError as error:
            _send_ipc(way, (1, 0, in_words(error)), axes, recorder)
            continue
        _send_ipc(way, (1, 1, _held(meters, worker, before)[NVML_DEVICE]), axes, recorder)


def _send_ipc(
    way: str,
    told: tuple[int | str, int | str, int | str],
    axes: Mapping[str, Axis],
    recorder: Recorder,
) -> None:
    for metric, value in zip(_IPC, told, strict=True):
        meter = NVML_DEVICE if metric == "ipc_added_bytes" else way
        _send(metric, meter, axes, value, recorder)
    for value in told:
        if isinstance(value, str):
            recorder.told(f"between processes, {way}", value)


def _send(
    metric: str, meter: str, axes: Mapping[str, Axis], told: int | str, recorder: Recorder
) -> None:
    unit = "bytes" if metric.endswith("bytes") else "count"
    if isinstance(told, str):
        recorder.figure(Figure(metric, unit, "sampled", meter, axes, reason=told))
    else:
        recorder.figure(Figure(metric, unit, "sampled", meter, axes, told))


def pair_cells(seconds: Sequence[str]) -> Cells:
    """Yield the cells of some pairs."""
    for second in seconds:
        yield {"second": second}, {"pair_failed": "count", "pair_seconds": "s"}
        for process in PROCESSES:
            axes: dict[str, Axis] = {"second": second, "process": process}
            yield axes, {"pair_live_bytes": "bytes"}
            for meter in _METERS:
                yield {**axes, "meter": meter}, {"pair_bytes": "bytes"}


def sharing_cells() -> Cells:
    """Yield the cells of two processes of a kind."""
    yield {}, {"shared_bytes": "bytes"}
    for way in WAYS:
        yield {"way": way}, _IPC
