"""What each counter shows while memory is taken, freed, and given back, and what stays and why.

A gibibyte of blocks, small ones among large ones, is taken, every second one freed, the cache
given back, the rest freed, the cache given back again. At each of these points every counter is
read: the allocator's own, torch's summary and block map, cudaMemGetInfo, and NVML's two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allocmark.allocators.base import Allocator, Capability
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.pressure.readings import (
    DEVICE_METERS,
    BlockMap,
    Reading,
    block_map,
    read_counters,
    summary_agrees,
)
from allocmark.schema.figure import Axis, Figure, Kind
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import pressure as metrics
from allocmark.schema.metrics.pressure import COUNTERS, KEPT_BYTES, OUTSIDE, POINTS, WHYS
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import GIB, KIB, MIB

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
            recorder.figure(metrics.FIRST_RESERVED_BYTES.missing(reason, axes))
        else:
            taken, metric = reserved - before, metrics.FIRST_RESERVED_BYTES
            recorder.figure(_figure(metric, taken, allocator.meter, axes, allocator))
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
            recorder.figure(metrics.SHOWN_BYTES.missing(str(reading), axes))
        else:
            metric = metrics.SHOWN_BYTES
            recorder.figure(_figure(metric, reading.value, reading.meter, axes, allocator))
    try:
        blocks = block_map(allocator)
    except NotMeasurableError as error:
        cells: list[Cell] = [({"point": point, "why": why}, (KEPT_BYTES,)) for why in WHYS[:3]]
        recorder.unfilled([*cells, ({"point": point}, (metrics.SUMMARY_AGREES,))], str(error))
    else:
        parts = (blocks.live, blocks.pinned_free, blocks.free_segments)
        for why, value in zip(WHYS[:3], parts, strict=True):
            axes = {"point": point, "why": why}
            recorder.figure(_figure(KEPT_BYTES, value, allocator.map_meter, axes, allocator))
        _report_agreement(point, shown, blocks, allocator, recorder)
    _report_outside(point, shown, allocator, recorder)


def _report_agreement(
    point: str,
    shown: Mapping[str, Reading],
    blocks: BlockMap,
    allocator: Allocator,
    recorder: Recorder,
) -> None:
    axes: dict[str, Axis] = {"point": point}
    try:
        agrees = int(summary_agrees(shown, blocks))
    except NotMeasurableError as error:
        recorder.figure(metrics.SUMMARY_AGREES.missing(str(error), axes))
        return
    recorder.reading(metrics.SUMMARY_AGREES, allocator.map_meter, axes, agrees)


def _report_outside(
    point: str, shown: Mapping[str, Reading], allocator: Allocator, recorder: Recorder
) -> None:
    """Send what the process holds besides its allocator: the context and loaded modules."""
    axes: dict[str, Axis] = {"point": point, "why": OUTSIDE}
    process, reserved = shown[metrics.NVML_PROCESS], shown[metrics.RESERVED]
    if isinstance(process, NotMeasurableError) or isinstance(reserved, NotMeasurableError):
        why = process if isinstance(process, NotMeasurableError) else reserved
        recorder.figure(KEPT_BYTES.missing(str(why), axes))
        return
    rest = process.value - reserved.value
    recorder.figure(_figure(KEPT_BYTES, rest, process.meter, axes, allocator))


def _figure(
    metric: Metric, value: int, meter: str, axes: Mapping[str, Axis], allocator: Allocator
) -> Figure:
    exact = meter not in DEVICE_METERS and Capability.EXACT in allocator.capabilities
    kind: Kind = "exact" if exact else "sampled"
    return metric.figure(meter, axes, value, [value], kind=kind)


def cells() -> Iterator[Cell]:
    """Yield the axes of all cells, each with its metric."""
    for size in FIRST_SIZES:
        yield {"bytes": size}, (metrics.FIRST_RESERVED_BYTES,)
    for point in POINTS:
        for counter in COUNTERS:
            yield {"point": point, "counter": counter}, (metrics.SHOWN_BYTES,)
        for why in WHYS:
            yield {"point": point, "why": why}, (KEPT_BYTES,)
        yield {"point": point}, (metrics.SUMMARY_AGREES,)
