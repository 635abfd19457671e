"""One opened allocator ready to be timed: its loops by level, and its cache made clean."""

from __future__ import annotations

import time

from allocmark.allocators.base import Allocator, Capability, NativeCalls, PythonCalls
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import in_words
from allocmark.experiments.latency.cells import CallCell, why_empty
from allocmark.meters.quiet import QuietCores
from allocmark.meters.timing import Loop, NativeLoop, Timed, clock
from allocmark.meters.timing_python import PythonLoop
from allocmark.schema.metrics.latency import ALLOCATOR, OP, PYTHON_METER
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.system.units import MIB, format_bytes

_TRIED_BYTES = 32 * MIB


class Bench:
    """The loops of an allocator by level, and what its cells need to be prepared.

    An allocator that is reached by an operation only is timed through it at both levels, and the
    meter says so.
    """

    def __init__(
        self,
        allocator: Allocator,
        largest_bytes: int | None = None,
        core_speed_ns: float | None = None,
    ) -> None:
        self.allocator = allocator
        self._largest_bytes = largest_bytes
        able = allocator.capabilities
        self.caches = Capability.CACHE in able
        self._trims = Capability.TRIM in able
        self.clock = clock()[0]
        self.native: NativeCalls | None = None
        """The native entry points, None where there are none."""
        operation = PythonLoop(
            PythonCalls(allocator.op), allocator.synchronize, "Python loop over the operation"
        )
        self.quiet = QuietCores(core_speed_ns)
        self.loops: dict[str, Loop] = {ALLOCATOR: self._own_loop(operation)}
        if Capability.OP in able:
            self.loops[OP] = operation
        self.keeps = self._keeps_over_synchronization()

    def own_levels(self) -> list[str]:
        """Return the levels that have a loop of their own."""
        return [level for level in self.loops if self.read_as(level) == level]

    def read_as(self, level: str) -> str:
        """Return the level whose readings stand for this one: one loop may serve both."""
        return next(name for name, loop in self.loops.items() if loop is self.loops[level])

    def why_empty(self, cell: CallCell) -> str | None:
        """Return why a cell is empty at every size, None where it can be measured."""
        return why_empty(self.allocator, self.keeps, cell)

    def clean(self) -> None:
        """Release everything cached to the driver."""
        self.allocator.synchronize()
        if self._trims:
            self.allocator.trim()

    def timed_trim(self, free: Timed) -> Timed:
        """Return what it takes to release one cached block, its free having taken `free`."""
        if not self.caches:
            return free
        if not self.keeps:
            waiting = free.complete_ns - free.host_ns
            self.clean()
            return Timed(waiting, waiting)
        if not self._trims:
            return free  # The cell is empty: `why_empty` says so.
        begin = time.perf_counter_ns()
        self.allocator.trim()
        host = time.perf_counter_ns() - begin
        self.allocator.synchronize()
        return Timed(host, time.perf_counter_ns() - begin)

    @property
    def release_meter(self) -> str | None:
        """What `timed_trim` reads; None where it is the free itself, read by its loop."""
        if not self.caches:
            return None
        return "trim called from Python" if self.keeps else "synchronization after the free"

    def free_bytes(self) -> int:
        """Return the device memory that is free now."""
        return runtime.memory_info()[0]

    def why_not_fit(self, size_bytes: int) -> str | None:
        """Return the reason where a size is larger than what is free now, or takes too long."""
        if self._largest_bytes is not None and size_bytes > self._largest_bytes:
            return f"left out of this profile: larger than {format_bytes(self._largest_bytes)}"
        if self.caches and not self._trims:
            return None  # What it still holds may serve the request: only a trial can tell.
        free_bytes = self.free_bytes()
        return f"does not fit: {format_bytes(free_bytes)} free" if size_bytes > free_bytes else None

    def _own_loop(self, operation: PythonLoop) -> Loop:
        allocator = self.allocator
        calls = self.native = allocator.native()
        if calls is not None:
            waits = calls.synchronize or runtime.address("cudaStreamSynchronize")
            return NativeLoop(calls, synchronize=waits)
        if Capability.OP in allocator.capabilities and not self.caches:
            return operation
        return PythonLoop(allocator.python_calls(), allocator.synchronize, PYTHON_METER)

    def _keeps_over_synchronization(self) -> bool:
        if not self.caches:
            return False
        try:
            self.allocator.free(self.allocator.alloc(_TRIED_BYTES))
        except DeviceOutOfMemoryError:
            return True  # On a card this full the cells tell why they are empty.
        self.allocator.synchronize()
        reserved = self.allocator.stats().reserved_bytes
        self.clean()
        return reserved is None or reserved > 0


def after_failure(bench: Bench) -> None:
    """Make the allocator usable again after a call that failed."""
    runtime.library().cudaGetLastError()  # Left behind, it would fail the framework's next call.
    bench.clean()


def out_of_memory(error: Exception) -> bool:
    """Whether an error of any framework says that memory ran out."""
    return (
        isinstance(error, DeviceOutOfMemoryError | MemoryError)
        or "OutOfMemory" in type(error).__name__
    )


def in_short(bench: Bench, size_bytes: int, error: Exception) -> str:
    """Return the reason of the cells of a size at which a call failed."""
    if not out_of_memory(error):
        return in_words(error)
    limit_bytes = bench.allocator.limit_bytes
    if limit_bytes is not None:
        return f"does not fit into the {format_bytes(limit_bytes)} that are this allocator's limit"
    free = format_bytes(bench.free_bytes())
    return f"does not fit: {free} free, and yet {format_bytes(size_bytes)} cannot be had"
