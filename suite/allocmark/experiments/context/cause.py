"""What a context's size depends on: device limits, and how many allocations are alive."""

from __future__ import annotations

from collections.abc import Iterator

from allocmark.cuda import driver
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.shared.forked import in_fork
from allocmark.meters.memory import MemoryMeters, Reading, settled
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.system.units import GIB, KIB, MIB, format_bytes

DEFAULT = ("default", 0)
LIMITS: tuple[tuple[str, int], ...] = (
    DEFAULT,
    ("stack", 256),
    ("stack", 4 * KIB),
    ("stack", 16 * KIB),
    ("heap", 64 * MIB),
    ("heap", 256 * MIB),
    ("printf", 16 * MIB),
    ("printf", 64 * MIB),
)
"""Limit and its value. The stack is bytes a thread, and every thread that fits gets one."""
COUNTS = (100, 1_000, 10_000, 100_000)
SIZES = (512, 2 * MIB)
_LEFT_FREE_BYTES = GIB
LIMIT_METERS = (NVML_PROCESS, NVML_DEVICE)


def measure_cause(device: int, recorder: Recorder) -> None:
    """Measure both."""
    for limit, value in LIMITS:
        with recorder.stage(f"limit {limit} {value}"):
            _limit(limit, value, device, recorder)
    for size in SIZES:
        with recorder.stage(f"live allocations of {size}"):
            _live(size, device, recorder)


def cause_cells() -> Iterator[tuple[str, str, str, dict[str, Axis]]]:
    """Return metric, unit, meter and axes of everything that is measured here."""
    for limit, value in LIMITS:
        for meter in LIMIT_METERS:
            axes: dict[str, Axis] = {"limit": limit, "limit_bytes": value, "meter": meter}
            yield "limited_context_bytes", "bytes", meter, axes
    for size in SIZES:
        for count in COUNTS:
            for meter in METERS:
                yield "live_bytes", "bytes", meter, _live_axes(size, count, meter)


def _limit(limit: str, value: int, device: int, recorder: Recorder) -> None:
    axes: dict[str, Axis] = {"limit": limit, "limit_bytes": value}
    try:
        told = in_fork(lambda: _context_under(limit, value, device))
    except Exception as error:
        for meter in LIMIT_METERS:
            recorder.figure(_figure("limited_context_bytes", axes, meter, str(error)))
        raise
    for name, default in told["defaults"].items():
        recorder.note(f"default {name} bytes", default)
    for meter in LIMIT_METERS:
        recorder.figure(_figure("limited_context_bytes", axes, meter, told["bytes"][meter]))


def _context_under(limit: str, value: int, device: int) -> dict[str, object]:
    meters = MemoryMeters(device)
    before = settled(meters)
    driver.init()
    driver.create_context(device)
    defaults: dict[str, int] = {}
    if (limit, value) != DEFAULT:
        defaults[limit] = driver.get_limit(limit)
        driver.set_limit(limit, value)
    # The heap and the printf buffer are set up for code that uses them, the stack at a launch.
    driver.launch(driver.alloc(driver.TENSOR_BYTES), device, with_calls=True)
    return {"bytes": _added(meters, before, LIMIT_METERS), "defaults": defaults}


def _live(size: int, device: int, recorder: Recorder) -> None:
    try:
        told = in_fork(lambda: _allocate(size, device), limit_s=120.0)
    except Exception as error:
        for count in COUNTS:
            for meter in METERS:
                recorder.figure(_figure("live_bytes", _live_axes(size, count), meter, str(error)))
        raise
    for count, added in told:
        for meter in METERS:
            recorder.figure(_figure("live_bytes", _live_axes(size, count), meter, added[meter]))


def _allocate(size: int, device: int) -> list[tuple[int, dict[str, int | str]]]:
    """Let more and more allocations live, and read at each of the counts."""
    meters = MemoryMeters(device)
    driver.init()
    driver.create_context(device)
    before = settled(meters)
    free_bytes, live = driver.memory_info()[0], 0
    told: list[tuple[int, dict[str, int | str]]] = []
    for count in COUNTS:
        if count * size > free_bytes - _LEFT_FREE_BYTES:
            reason = f"{format_bytes(count * size)} do not fit into {format_bytes(free_bytes)} free"
            told.append((count, dict.fromkeys(METERS, reason)))
            continue
        try:
            while live < count:
                driver.alloc(size)
                live += 1
        except DeviceOutOfMemoryError as error:
            reason = f"the driver had no more after {live} allocations ({error})"
            told.append((count, dict.fromkeys(METERS, reason)))
            continue
        told.append((count, _added(meters, before, METERS)))
    return told


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


def _live_axes(size: int, count: int, meter: str | None = None) -> dict[str, Axis]:
    axes: dict[str, Axis] = {"bytes": size, "count": count}
    return axes if meter is None else axes | {"meter": meter}


def _figure(metric: str, axes: dict[str, Axis], meter: str, told: float | str) -> Figure:
    placed = axes | {"meter": meter}
    if isinstance(told, str):
        return Figure(metric, "bytes", "sampled", meter, placed, reason=told)
    return Figure(metric, "bytes", "sampled", meter, placed, told)
