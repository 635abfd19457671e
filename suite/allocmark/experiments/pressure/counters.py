"""What each counter shows while memory is taken, freed, and given back, and what stays and why.

A gibibyte of blocks, small ones among large ones, is taken, every second one freed, the cache
given back, the rest freed, the cache given back again. At each of these points every counter is
read: the allocator's own, torch's summary and block map, cudaMemGetInfo, and NVML's two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allocmark.allocators.base import Allocator, Capability
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.pressure.readings import (
    COUNTERS,
    DEVICE_METERS,
    BlockMap,
    Reading,
    block_map,
    read_counters,
    summary_agrees,
)
from allocmark.schema.figure import Axis, Figure, Kind
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import GIB, KIB, MIB

POINTS = (
    "before",
    "1 GiB taken",
    "half freed",
    "half freed, cache emptied",
    "all freed",
    "all freed, cache emptied",
)
"""In the order of the program."""

WHYS = (
    "live blocks",
    "free in segments with live blocks",
    "free segments",
    "outside the allocator",
)

_PATTERN = (8 * MIB, 4 * MIB, MIB, MIB, *[256 * KIB] * 7, *[128 * KIB] * 2)
"""16 MiB in small and large blocks; 64 of them are a gibibyte. An odd count: of every second
block freed, half are large."""


FIRST_SIZES = (512, MIB, MIB + 512, 9 * MIB, 10 * MIB, 10 * MIB + 512, 100 * MIB, 100 * MIB + 512)
"""Single requests around the sizes at which allocators change what they ask the driver for."""


def measure_counters(allocator: Allocator, device: int, recorder: Recorder) -> None:
    """Walk through the points on an opened allocator, send what every counter shows, and what
    single requests take."""
    for point in _walk(allocator):
        allocator.synchronize()
        with recorder.stage(f"counters: {point}"):
            _report(point, allocator, device, recorder)
    with recorder.stage("counters: first requests"):
        _first_requests(allocator, recorder)


def _walk(allocator: Allocator) -> Iterator[str]:
    """Run the program; yields at each point."""
    points = iter(POINTS)
    yield next(points)
    blocks = [allocator.alloc(size) for size in _PATTERN * (GIB // sum(_PATTERN))]
    yield next(points)
    for part in (blocks[::2], blocks[1::2]):
        for block in part:
            allocator.free(block)
        yield next(points)
        if Capability.TRIM in allocator.capabilities:
            allocator.trim()
        yield next(points)


def _first_requests(allocator: Allocator, recorder: Recorder) -> None:
    """Send what a single request takes from the driver, each from an empty cache."""
    for size in FIRST_SIZES:
        axes: dict[str, Axis] = {"bytes": size}
        _empty(allocator)
        before = allocator.stats().reserved_bytes
        block = allocator.alloc(size)
        reserved = allocator.stats().reserved_bytes
        allocator.free(block)
        allocator.synchronize()
        if before is None or reserved is None:
            reason = f"{allocator.name} does not tell what it holds"
            recorder.missing("first_reserved_bytes", "bytes", reason, axes)
        else:
            taken = reserved - before
            figure = _figure("first_reserved_bytes", taken, allocator.meter, axes, allocator)
            recorder.figure(figure)
    _empty(allocator)


def _empty(allocator: Allocator) -> None:
    """Give the cache back; where the framework has no way to, start again."""
    if Capability.TRIM in allocator.capabilities:
        allocator.trim()
    else:
        allocator.restart()


def _report(point: str, allocator: Allocator, device: int, recorder: Recorder) -> None:
    shown = read_counters(allocator, device)
    for counter in COUNTERS:
        axes: dict[str, Axis] = {"point": point, "counter": counter}
        reading = shown[counter]
        if isinstance(reading, NotMeasurableError):
            recorder.missing("shown_bytes", "bytes", str(reading), axes)
        else:
            recorder.figure(_figure("shown_bytes", reading.value, reading.meter, axes, allocator))
    try:
        blocks = block_map(allocator)
    except NotMeasurableError as error:
        for why in WHYS[:3]:
            recorder.missing("kept_bytes", "bytes", str(error), {"point": point, "why": why})
        recorder.missing("summary_agrees", "share", str(error), {"point": point})
    else:
        parts = (blocks.live, blocks.pinned_free, blocks.free_segments)
        for why, value in zip(WHYS[:3], parts, strict=True):
            axes = {"point": point, "why": why}
            recorder.figure(_figure("kept_bytes", value, allocator.map_meter, axes, allocator))
        _report_agreement(point, shown, blocks, allocator, recorder)
    _report_outside(point, shown, allocator, recorder)


def _report_agreement(
    point: str,
    shown: Mapping[str, Reading],
    blocks: BlockMap,
    allocator: Allocator,
    recorder: Recorder,
) -> None:
    axes = {"point": point}
    try:
        agrees = int(summary_agrees(shown, blocks))
    except NotMeasurableError as error:
        recorder.missing("summary_agrees", "share", str(error), axes)
        return
    meter = allocator.map_meter
    recorder.figure(Figure("summary_agrees", "share", "exact", meter, axes, agrees))


def _report_outside(
    point: str, shown: Mapping[str, Reading], allocator: Allocator, recorder: Recorder
) -> None:
    """Send what the process holds besides its allocator: the context and loaded modules."""
    axes: dict[str, Axis] = {"point": point, "why": WHYS[3]}
    process, reserved = shown["NVML process"], shown["reserved"]
    if isinstance(process, NotMeasurableError) or isinstance(reserved, NotMeasurableError):
        why = process if isinstance(process, NotMeasurableError) else reserved
        recorder.missing("kept_bytes", "bytes", str(why), axes)
        return
    rest = process.value - reserved.value
    recorder.figure(_figure("kept_bytes", rest, process.meter, axes, allocator))


def _figure(
    metric: str, value: int, meter: str, axes: Mapping[str, Axis], allocator: Allocator
) -> Figure:
    exact = meter not in DEVICE_METERS and Capability.EXACT in allocator.capabilities
    kind: Kind = "exact" if exact else "sampled"
    return Figure(metric, "bytes", kind, meter, axes, value, [value])


def expected() -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    """Yield the axes of all cells, each with its metric and unit."""
    for size in FIRST_SIZES:
        yield {"bytes": size}, {"first_reserved_bytes": "bytes"}
    for point in POINTS:
        for counter in COUNTERS:
            yield {"point": point, "counter": counter}, {"shown_bytes": "bytes"}
        for why in WHYS:
            yield {"point": point, "why": why}, {"kept_bytes": "bytes"}
        yield {"point": point}, {"summary_agrees": "share"}
