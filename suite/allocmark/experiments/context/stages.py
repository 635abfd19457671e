"""The stages of one fresh process, each timed and read by every meter."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from allocmark.experiments.context.subjects import IMPORT, STAGES, Step, Subject
from allocmark.experiments.core.recorder import CLOCK, Recorder, in_words
from allocmark.meters.memory import MemoryMeters, Reading, settled
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_PROCESS
from allocmark.schema.figure import Axis, Figure, Kind

_BEFORE = (
    "cudaMemGetInfo could not be asked before this stage: to ask it would have created the context"
)
_NEVER = (
    "cudaMemGetInfo cannot be asked before the context exists, so there is no reading to start from"
)
_DISTURBED = "another process on this GPU changed what it holds during this stage"

METRICS: Mapping[str, tuple[str, Kind, tuple[str, ...]]] = {
    "stage_seconds": ("s", "time", (CLOCK,)),
    "stage_bytes": ("bytes", "sampled", METERS),
    "total_bytes": ("bytes", "sampled", METERS),
}
"""Unit, kind and meters of each metric of a stage."""


def cells(loading: str) -> Iterator[tuple[str, str, str, dict[str, Axis]]]:
    """Return metric, unit, meter and axes of everything that is measured of one kind of loading."""
    for stage in STAGES:
        for metric, (unit, _, meters) in METRICS.items():
            for meter in meters:
                yield metric, unit, meter, axes_of(metric, stage, loading, meter)


def axes_of(metric: str, stage: str, loading: str, meter: str) -> dict[str, Axis]:
    """Return the axes of one cell; a time has one meter, which is therefore no axis."""
    axes: dict[str, Axis] = {"stage": stage, "module_loading": loading}
    return axes if metric == "stage_seconds" else axes | {"meter": meter}


def measure_stages(
    subject: Subject,
    loading: str,
    meters: MemoryMeters,
    device: int,
    import_seconds: float,
    recorder: Recorder,
) -> None:
    """Go through the stages. What one cannot do is the reason of its cells and of those after."""
    log = _Log(meters, loading, recorder)
    log.add(IMPORT, import_seconds)  # It was imported ahead, and touched no GPU.
    failed: str | None = None
    for stage, step in subject.steps(device).items():
        if failed or isinstance(step, str):
            log.missing(stage, step if isinstance(step, str) else failed or "")
            continue
        with recorder.stage(stage):
            try:
                seconds = _timed(step)
            except Exception as error:
                failed = in_words(error)
                log.missing(stage, failed)
                failed = f"not reached: {stage} could not be done ({failed})"
                raise
            log.add(stage, seconds)


def _timed(step: Step) -> float:
    assert not isinstance(step, str)
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


class _Log:
    """What each stage added since the one before."""

    def __init__(self, meters: MemoryMeters, loading: str, recorder: Recorder) -> None:
        self._meters, self._loading, self._recorder = meters, loading, recorder
        self._first = self._last = settled(meters)
        self._neighbours = meters.neighbours()

    def add(self, stage: str, seconds: float) -> None:
        """Send the cells of a stage that was done."""
        self._send("stage_seconds", stage, CLOCK, seconds)
        reading, neighbours = self._meters.read(), self._meters.neighbours()
        disturbed = _DISTURBED if neighbours != self._neighbours else None
        for meter in METERS:
            whole_gpu = meter != NVML_PROCESS
            for metric, since in (("stage_bytes", self._last), ("total_bytes", self._first)):
                added = self._added(metric, meter, since, reading)
                if whole_gpu and disturbed and not isinstance(added, str):
                    added = disturbed
                self._send(metric, stage, meter, added)
        self._last, self._neighbours = reading, neighbours

    def missing(self, stage: str, reason: str) -> None:
        """Send the cells of a stage that was not done."""
        for metric, (_, _, meters) in METRICS.items():
            for meter in meters:
                self._send(metric, stage, meter, reason)

    def _added(self, metric: str, meter: str, since: Reading, now: Reading) -> int | str:
        before, after = since[meter], now[meter]
        if meter == MEM_GET_INFO and metric == "total_bytes":
            return _NEVER
        if after is None:
            return self._meters.why(meter) or "not read"
        if before is None:
            # NVML lists a process from its context on: before, it holds nothing.
            return after if meter == NVML_PROCESS else _BEFORE
        return after - before

    def _send(self, metric: str, stage: str, meter: str, told: float | str) -> None:
        """Send a value, or the reason why there is none."""
        unit, kind, _ = METRICS[metric]
        axes = axes_of(metric, stage, self._loading, meter)
        if isinstance(told, str):
            self._recorder.figure(Figure(metric, unit, kind, meter, axes, reason=told))
        else:
            self._recorder.figure(Figure(metric, unit, kind, meter, axes, told))
