"""What was found of a program as figures: every cell a number or the reason why there is none."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from allocmark.allocators.torch_caching import NATIVE
from allocmark.replays.answer import SettingAnswer
from allocmark.schema.figure import Figure
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.tools.accuracy.capacity_tries import Tried
from allocmark.tools.accuracy.measuring import ProgramFound, SettingFound

_COUNTERS = "allocator counters"
_CLOCK = "perf_counter"
_REPLAYED = "allocator counters, replay, {where}"
_BALLAST = "ballast, cudaMemGetInfo"
_RECORDED = {
    metrics.RECORDED_PEAK_RESERVED_BYTES: "peak_reserved_bytes",
    metrics.RECORDED_PEAK_REQUESTED_BYTES: "peak_requested_bytes",
    metrics.RECORDED_ALLOCS: "allocs",
}
_REAL = {
    metrics.REAL_PEAK_RESERVED_BYTES: "peak_reserved_bytes",
    metrics.REAL_PEAK_REQUESTED_BYTES: "peak_requested_bytes",
    metrics.REAL_ALLOCS: "allocs",
}
_NO_MODEL = "replayed on the emulated driver only: there is no model in it"
_NOT_RUN = "it was not run"
Value = float | Sequence[float] | str
"""A number, several readings, or the reason why there is none."""


def figures(found: ProgramFound) -> list[Figure]:
    """Return the cells of one program."""
    made = []
    for setting, own in found.settings.items():
        axes = {"allocator": setting}
        for metric, meter, value in _cells(found, setting, own):
            made.append(_figure(metric, meter, axes, value))
    return made


def _cells(
    found: ProgramFound, setting: str, own: SettingFound
) -> Iterator[tuple[Metric, str, Value]]:
    reason = found.reason
    if setting == NATIVE:
        for metric, name in _RECORDED.items():
            counted = found.recorded.counters.get(name) if found.recorded else None
            yield metric, _COUNTERS, reason or _NOT_RUN if counted is None else counted
    why = reason or own.real_reason or _NOT_RUN
    for metric, name in _REAL.items():
        readings = [run.counters[name] for run in own.real if name in run.counters]
        uncounted = f"{setting} does not count it" if own.real else why
        yield metric, _COUNTERS, readings or uncounted
    yield metrics.REAL_SECONDS, _CLOCK, [run.seconds for run in own.real] or why
    real = [run.counters["peak_reserved_bytes"] for run in own.real] or why
    not_replayed = reason or own.replayed_reason
    yield from _replayed("emulated", own.replayed, not_replayed, real)
    yield from _replayed("gpu", own.gpu_replayed, reason or _NO_MODEL, real)
    outside = found.outside.value_bytes if found.outside else reason or "it was not replayed"
    yield metrics.OUTSIDE_BYTES, _REPLAYED.format(where="emulated"), outside
    yield from _capacity(own, not_replayed)


def _replayed(
    where: str, answer: SettingAnswer | None, why: str, real: Sequence[float] | str
) -> Iterator[tuple[Metric, str, Value]]:
    peak_metric, off_metric = {
        "emulated": (
            metrics.EMULATED_REPLAY_PEAK_RESERVED_BYTES,
            metrics.EMULATED_DIFFERENCE_RATIO,
        ),
        "gpu": (metrics.GPU_REPLAY_PEAK_RESERVED_BYTES, metrics.GPU_DIFFERENCE_RATIO),
    }[where]
    peak = answer.figure("peak_reserved_bytes") if answer else None
    meter = _REPLAYED.format(where=where)
    if peak is None:
        missing = (answer.reason if answer else "") or why
        yield peak_metric, meter, missing
        yield off_metric, meter, missing
        return
    yield peak_metric, meter, peak
    yield off_metric, meter, real if isinstance(real, str) else peak / statistics.median(real) - 1


def _capacity(own: SettingFound, not_replayed: str) -> Iterator[tuple[Metric, str, Value]]:
    meter = _REPLAYED.format(where="emulated")
    prediction, answer = own.prediction, own.replayed
    if prediction is None or answer is None:
        reasons = answer.reasons if answer else {}
        why = not_replayed or reasons.get("smallest_capacity_bytes", "no capacity was found")
        yield metrics.PREDICTED_CAPACITY_BYTES, meter, why
        yield metrics.RESOLUTION_BYTES, meter, why
    else:
        why = ""
        yield metrics.PREDICTED_CAPACITY_BYTES, meter, prediction.smallest_bytes
        yield metrics.RESOLUTION_BYTES, meter, prediction.resolution_bytes
    yield from _tried(metrics.ABOVE_BYTES, metrics.ABOVE_COMPLETES, own.above, why)
    if answer is not None and not why and not answer.settled:
        why = "the search for it was cut off: it may be smaller"
    yield from _tried(metrics.BELOW_BYTES, metrics.BELOW_COMPLETES, own.below, why)
    outcome = own.below.outcome if own.below else None
    requested = outcome.counters.get("peak_requested_bytes") if outcome else None
    uncounted = why or (own.below.reason if own.below else "") or "it does not count it"
    yield metrics.BELOW_PEAK_REQUESTED_BYTES, _COUNTERS, requested or uncounted


def _tried(
    free: Metric, completes: Metric, tried: Tried | None, why: str
) -> Iterator[tuple[Metric, str, Value]]:
    reason = why or (tried.reason if tried else "it was not tried")
    completed = tried.completed if tried else None
    yield free, _BALLAST, reason if tried is None or reason else tried.free_bytes
    yield completes, _BALLAST, reason if completed is None or reason else int(completed)


def _figure(metric: Metric, meter: str, axes: Mapping[str, str], value: Value) -> Figure:
    if isinstance(value, str):
        return metric.missing(value, axes, kind=metric.kind)
    readings = [value] if isinstance(value, int | float) else value
    return metric.figure(meter, axes, statistics.median(readings), readings)
