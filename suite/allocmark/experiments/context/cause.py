"""What a context's size depends on: device limits, and how many allocations are alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from allocmark.cuda import driver
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import Request
from allocmark.experiments.shared.forked import in_fork
from allocmark.meters.memory import MemoryMeters, Reading, settled
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import context as metrics
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.system.units import GIB, KIB, MIB, format_bytes

_LIMITS: tuple[tuple[str, int], ...] = (
    (metrics.DEFAULT, 0),
    (metrics.STACK, 256),
    (metrics.STACK, 4 * KIB),
    (metrics.STACK, 16 * KIB),
    (metrics.HEAP, 64 * MIB),
    (metrics.HEAP, 256 * MIB),
    (metrics.PRINTF, 16 * MIB),
    (metrics.PRINTF, 64 * MIB),
)
"""Limit and its value. The stack is bytes a thread, and every thread that fits gets one."""
_COUNTS = (100, 1_000, 10_000, 100_000)
_SIZES = (512, 2 * MIB)
_LEFT_FREE_BYTES = GIB
_LIMIT_METERS = (NVML_PROCESS, NVML_DEVICE)


def prepare(request: Request) -> Callable[[Recorder], None]:
    """Load the driver, for all forks to come."""
    driver.library()
    return partial(_measure, request)


def _measure(request: Request, recorder: Recorder) -> None:
    """Measure contexts under limits, then live allocations."""
    for limit, value in _LIMITS:
        with recorder.stage(f"limit {limit} {value}"):
            _limit(limit, value, request.device, recorder)
    for size in _SIZES:
        with recorder.stage(f"live allocations of {size}"):
            _live(size, request.device, recorder)


def cells(subject: str) -> Iterator[tuple[Metric, str, Mapping[str, Axis]]]:
    """Return metric, meter and axes of everything that is measured here."""
    for limit, value in _LIMITS:
        for meter in _LIMIT_METERS:
            axes: dict[str, Axis] = {"limit": limit, "limit_bytes": value, "meter": meter}
            yield metrics.LIMITED_CONTEXT_BYTES, meter, axes
    for size in _SIZES:
        for count in _COUNTS:
            for meter in METERS:
                axes = {"bytes": size, "count": count, "meter": meter}
                yield metrics.LIVE_BYTES, meter, axes


def _limit(limit: str, value: int, device: int, recorder: Recorder) -> None:
    metric = metrics.LIMITED_CONTEXT_BYTES
    axes: dict[str, Axis] = {"limit": limit, "limit_bytes": value}
    try:
        found = in_fork(lambda: _context_under(limit, value, device))
    except Exception as error:
        _send(metric, axes, dict.fromkeys(_LIMIT_METERS, str(error)), recorder)
        raise
    for name, default in found["defaults"].items():
        recorder.note(f"default {name} bytes", default)
    _send(metric, axes, found["bytes"], recorder)


def _context_under(limit: str, value: int, device: int) -> dict[str, object]:
    meters = MemoryMeters(device)
    before = settled(meters)
    driver.init()
    driver.create_context(device)
    defaults: dict[str, int] = {}
    if limit != metrics.DEFAULT:
        defaults[limit] = driver.get_limit(limit)
        driver.set_limit(limit, value)
    # The heap and the printf buffer are set up for code that uses them, the stack at a launch.
    driver.launch(driver.alloc(driver.TENSOR_BYTES), device, with_calls=True)
    return {"bytes": _added(meters, before, _LIMIT_METERS), "defaults": defaults}


def _live(size: int, device: int, recorder: Recorder) -> None:
    try:
        found = in_fork(lambda: _allocate(size, device), limit_s=120.0)
    except Exception as error:
        reasons = dict.fromkeys(METERS, str(error))
        for count in _COUNTS:
            _send(metrics.LIVE_BYTES, {"bytes": size, "count": count}, reasons, recorder)
        raise
    for count, added in found:
        _send(metrics.LIVE_BYTES, {"bytes": size, "count": count}, added, recorder)


def _send(
    metric: Metric, axes: Mapping[str, Axis], shown: Mapping[str, int | str], recorder: Recorder
) -> None:
    for meter, value in shown.items():
        recorder.reading(metric, meter, {**axes, "meter": meter}, value)


def _allocate(size: int, device: int) -> list[tuple[int, dict[str, int | str]]]:
    """Let more and more allocations live, and read at each of the counts."""
    meters = MemoryMeters(device)
    driver.init()
    driver.create_context(device)
    before = settled(meters)
    free_bytes, live = driver.memory_info()[0], 0
    found: list[tuple[int, dict[str, int | str]]] = []
    for count in _COUNTS:
        if count * size > free_bytes - _LEFT_FREE_BYTES:
            reason = f"{format_bytes(count * size)} do not fit into {format_bytes(free_bytes)} free"
            found.append((count, dict.fromkeys(METERS, reason)))
            continue
        try:
            while live < count:
                driver.alloc(size)
                live += 1
        except DeviceOutOfMemoryError as error:
            reason = f"the driver had no more after {live} allocations ({error})"
            found.append((count, dict.fromkeys(METERS, reason)))
            continue
        found.append((count, _added(meters, before, METERS)))
    return found


def _added(meters: MemoryMeters, before: Reading, which: tuple[str, ...]) -> dict[str, int | str]:
    """Return by meter what came since; NVML lists a process only from its context on."""
    after = meters.read()
    added: dict[str, int | str] = {}
    for meter in which:
        now, then = after[meter], before[meter]
        if now is None:
            added[meter] = meters.why(meter) or "not read"
        elif then is None and meter == MEM_GET_INFO:
            added[meter] = "cudaMemGetInfo could not be asked before"
        else:
            added[meter] = now - (then or 0)
    return added
