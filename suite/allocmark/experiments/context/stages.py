"""The stages of one fresh process, each timed and read by every meter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from allocmark.experiments.context.subjects import Subject, subject_of
from allocmark.experiments.core.recorder import CLOCK, Recorder, in_words
from allocmark.experiments.core.request import Request
from allocmark.meters.memory import MemoryMeters, Reading, settled
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_PROCESS
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import context as metrics

_BEFORE = (
    "cudaMemGetInfo could not be asked before this stage: to ask it would have created the context"
)
_NEVER = (
    "cudaMemGetInfo cannot be asked before the context exists, so there is no reading to start from"
)
_DISTURBED = "another process on this GPU changed what it holds during this stage"

_METRICS: Mapping[Metric, tuple[str, ...]] = {
    metrics.STAGE_SECONDS: (CLOCK,),
    metrics.STAGE_BYTES: METERS,
    metrics.TOTAL_BYTES: METERS,
}
"""The meters of each metric of a stage."""


def prepare(request: Request) -> Callable[[Recorder], None]:
    """Load the subject, and the meters."""
    begin = time.perf_counter()
    subject = subject_of(request.subject)
    subject.load()
    seconds = time.perf_counter() - begin
    # NVML creates no context, and a hundred processes need not wait for it.
    return partial(measure_stages, request, subject, MemoryMeters(request.device), seconds)


def measure_stages(
    request: Request,
    subject: Subject,
    meters: MemoryMeters,
    import_seconds: float,
    recorder: Recorder,
) -> None:
    """Go through the stages. What one cannot do is the reason of its cells and of those after."""
    log = _Log(meters, request.parameters["module_loading"], recorder)
    log.add(metrics.IMPORT, import_seconds)  # It was imported ahead, and touched no GPU.
    failed: str | None = None
    for stage, step in subject.steps(request.device).items():
        if failed or isinstance(step, str):
            log.missing(stage, step if isinstance(step, str) else failed or "")
            continue
        with recorder.stage(stage):
            try:
                begin = time.perf_counter()
                step()
                seconds = time.perf_counter() - begin
            except Exception as error:
                failed = in_words(error)
                log.missing(stage, failed)
                failed = f"not reached: {stage} could not be done ({failed})"
                raise
            log.add(stage, seconds)


def cells(subject: str) -> Iterator[tuple[Metric, str, Mapping[str, Axis]]]:
    """Return metric, meter and axes of everything that is measured here."""
    for loading in metrics.LOADINGS:
        for stage in metrics.STAGES:
            for metric, meters in _METRICS.items():
                for meter in meters:
                    yield metric, meter, _axes(metric, stage, loading, meter)


def _axes(metric: Metric, stage: str, loading: str, meter: str) -> dict[str, Axis]:
    """Return the axes of one cell; a time has one meter, which is therefore no axis."""
    axes: dict[str, Axis] = {"stage": stage, "module_loading": loading, "meter": meter}
    return {axis: axes[axis] for axis in metric.axes}


class _Log:
    """What each stage added since the one before."""

    def __init__(self, meters: MemoryMeters, loading: str, recorder: Recorder) -> None:
        self._meters, self._loading, self._recorder = meters, loading, recorder
        self._first = self._last = settled(meters)
        self._neighbours = meters.neighbours()

    def add(self, stage: str, seconds: float) -> None:
        """Send the cells of a stage that was done."""
        self._send(metrics.STAGE_SECONDS, stage, CLOCK, seconds)
        reading, neighbours = self._meters.read(), self._meters.neighbours()
        disturbed = _DISTURBED if neighbours != self._neighbours else None
        for meter in METERS:
            whole_gpu = meter != NVML_PROCESS
            for metric, since in (
                (metrics.STAGE_BYTES, self._last),
                (metrics.TOTAL_BYTES, self._first),
            ):
                added = self._added(metric, meter, since, reading)
                if whole_gpu and disturbed and not isinstance(added, str):
                    added = disturbed
                self._send(metric, stage, meter, added)
        self._last, self._neighbours = reading, neighbours

    def missing(self, stage: str, reason: str) -> None:
        """Send the cells of a stage that was not done."""
        for metric, meters in _METRICS.items():
            for meter in meters:
                self._send(metric, stage, meter, reason)

    def _added(self, metric: Metric, meter: str, since: Reading, now: Reading) -> int | str:
        before, after = since[meter], now[meter]
        if meter == MEM_GET_INFO and metric is metrics.TOTAL_BYTES:
            return _NEVER
        if after is None:
            return self._meters.why(meter) or "not read"
        if before is None:
            # NVML lists a process from its context on: before, it holds nothing.
            return after if meter == NVML_PROCESS else _BEFORE
        return after - before

    def _send(self, metric: Metric, stage: str, meter: str, found: float | str) -> None:
        """Send a value, or the reason why there is none."""
        axes = _axes(metric, stage, self._loading, meter)
        self._recorder.reading(metric, meter, axes, found)
