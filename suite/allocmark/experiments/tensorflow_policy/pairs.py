"""Two processes on one GPU: the first takes its set and keeps it, then comes the second.

One first process serves all seconds, one after another: it only holds what it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from allocmark.experiments.core.recorder import CLOCK, Cell, Recorder, in_words
from allocmark.experiments.tensorflow_policy.program_part import PolicyPart, device_bytes
from allocmark.experiments.tensorflow_policy.worker import Worker
from allocmark.meters.memory import MemoryMeters, Reading, settled
from allocmark.schema.device_meters import NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import tensorflow_policy as metrics
from allocmark.system.errors import NotMeasurableError

_METERS = (NVML_PROCESS, NVML_DEVICE)
_PROGRAM = "the program"
_AHEAD = 2
"""How many of the next processes import meanwhile."""
_NOT_SUPPORTED = "not supported"
"""In CUDA's own words (801): the driver has no such thing, which says nothing about the memory."""
_NOTHING = "the second process did not get its set: there is nothing to compare"
_IPC = (metrics.IPC_EXPORTED, metrics.IPC_OPENED, metrics.IPC_ADDED_BYTES)


class Pairs(PolicyPart):
    """A first process with its set, then each of the ``seconds`` beside it, and sharing."""

    name = "pairs"
    limit_s = 180.0

    def prepare(self) -> None:
        self._gpu_bytes = device_bytes(self.device)
        self._waiting = list(self.parameters["seconds"])
        self._started: list[Worker] = []
        self._first = self._new(self.subject)
        self._refill()

    def measure(self, recorder: Recorder) -> None:
        """Let the first take its set, then one second after another; the last thing is sharing."""
        meters = MemoryMeters(self.device)
        try:
            empty = settled(meters)
            self._first.answer()
            ran = self._first.order("run")
            if ran["error"]:
                recorder.error("first alone", ran["error"])
            held = _held(meters, self._first, empty)
            while self._started:
                worker = self._started.pop(0)
                self._refill()
                with worker, recorder.stage(f"second: {worker.subject}"):
                    self._run_second(worker, meters, ran, held, recorder)
        finally:
            for each in (self._first, *self._started):
                each.close()

    def cells(self) -> Iterator[Cell]:
        yield from pair_cells(self.parameters["seconds"])
        yield {}, (metrics.SHARED_BYTES,)
        for way in metrics.WAYS:
            yield {"way": way}, _IPC

    def _refill(self) -> None:
        while self._waiting and len(self._started) < _AHEAD:
            self._started.append(self._new(self._waiting.pop(0)))

    def _new(self, subject: str) -> Worker:
        return Worker(subject, self.device, self._gpu_bytes)

    def _run_second(
        self,
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
            recorder.unfilled(pair_cells([worker.subject]), str(error))
            raise
        added = _held(meters, worker, before)
        failed = ran["error"] is not None
        recorder.reading(metrics.PAIR_FAILED, _PROGRAM, second, int(failed))
        recorder.reading(metrics.PAIR_SECONDS, CLOCK, second, ran["seconds"])
        if failed:
            recorder.error(f"second: {worker.subject}", ran["error"])
        for process, live, bytes_held in (
            (metrics.FIRST, first["live"], held),
            (metrics.SECOND, ran["live"], added),
        ):
            axes = {**second, "process": process}
            recorder.reading(metrics.PAIR_LIVE_BYTES, _PROGRAM, axes, live)
            for meter, value in bytes_held.items():
                recorder.reading(metrics.PAIR_BYTES, meter, {**axes, "meter": meter}, value)
        if worker.subject == self.subject:
            _send_shared(held, added, failed, recorder)
            self._share(worker, meters, recorder)

    def _share(self, worker: Worker, meters: MemoryMeters, recorder: Recorder) -> None:
        """Send whether a second process of the kind can open the first one's memory."""
        for way in metrics.WAYS:
            try:
                handle = self._first.order("export", way)
            except NotMeasurableError as error:
                text = str(error)
                exported = text if _NOT_SUPPORTED in text else 0
                _send_ipc(way, (exported, text, text), recorder)
                continue
            before = settled(meters)
            try:
                worker.order("open", way, handle)
            except NotMeasurableError as error:
                _send_ipc(way, (1, 0, in_words(error)), recorder)
                continue
            _send_ipc(way, (1, 1, _held(meters, worker, before)[NVML_DEVICE]), recorder)


def _held(meters: MemoryMeters, worker: Worker, since: Reading) -> dict[str, int | str]:
    """Return what a process holds by NVML's list, and what the device has more since then."""
    now = meters.read(worker.pid)
    held: dict[str, int | str] = {}
    for meter in _METERS:
        value, before = now[meter], since[meter] if meter == NVML_DEVICE else 0
        if value is None or before is None:
            held[meter] = meters.why(meter) or "not read"
        else:
            held[meter] = value - before
    return held


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
    recorder.reading(metrics.SHARED_BYTES, meter, {}, shared)


def _send_ipc(way: str, values: tuple[int | str, int | str, int | str], recorder: Recorder) -> None:
    """Send whether memory was exported, opened, and the bytes added, each or the reason."""
    for metric, value in zip(_IPC, values, strict=True):
        meter = NVML_DEVICE if metric is metrics.IPC_ADDED_BYTES else way
        recorder.reading(metric, meter, {"way": way}, value)
    for value in values:
        if isinstance(value, str):
            recorder.error(f"between processes, {way}", value)


def pair_cells(seconds: Sequence[str]) -> Iterator[Cell]:
    """Yield the cells of some pairs."""
    for second in seconds:
        yield {"second": second}, (metrics.PAIR_FAILED, metrics.PAIR_SECONDS)
        for process in metrics.PROCESSES:
            axes: dict[str, Axis] = {"second": second, "process": process}
            yield axes, (metrics.PAIR_LIVE_BYTES,)
            for meter in _METERS:
                yield {**axes, "meter": meter}, (metrics.PAIR_BYTES,)
