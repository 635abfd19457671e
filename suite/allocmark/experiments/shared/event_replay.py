"""Runs a workload's events over any allocator, fast, and leaves nothing behind.

The events are turned into plain lists once (`Script`), the loop touches only local variables, and
whoever wants to look in between names the events after which to be called; the time that takes
does not count as the replay's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ctypes import byref, c_uint, c_void_p
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

import numpy as np

from allocmark.allocators.base import Allocator, Capability
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.workloads.event_trace import Op, Trace

_ALLOC_SHARED = -1
"""In a script: an allocation of a block that another stream will use."""
_EVENT_DISABLE_TIMING = 2


@dataclass(frozen=True)
class Script:
    """A trace as lists, ready to run any number of times."""

    trace: Trace
    ops: list[int]
    blocks: list[int]
    sizes: list[int]
    streams: list[int]

    @classmethod
    def of(cls, trace: Trace) -> Script:
        """Turn a trace into lists; marks the allocations of blocks that are shared."""
        ops = trace.op.astype(np.int64)
        shared = trace.block[(ops == Op.RECORD_STREAM) | (ops == Op.HANDOFF)]
        ops[(ops == Op.ALLOC) & np.isin(trace.block, shared)] = _ALLOC_SHARED
        lists = (trace.block.tolist(), trace.size.tolist(), trace.stream.tolist())
        return cls(trace, ops.tolist(), *lists)

    def __len__(self) -> int:
        return len(self.ops)

    @cached_property
    def live_bytes(self) -> list[int]:
        """Requested bytes alive after each event."""
        lives: list[int] = self.trace.live_bytes.tolist()
        return lives

    @cached_property
    def peak_event(self) -> int:
        """The event after which the most requested bytes are alive, the first of them."""
        return int(np.argmax(self.trace.live_bytes)) if len(self) else 0

    @property
    def peak_requested_bytes(self) -> int:
        """The most requested bytes alive at once."""
        return self.live_bytes[self.peak_event] if len(self) else 0

    def fullest_events(self, count: int) -> list[int]:
        """Return the events after which most requested bytes are alive, the peak first."""
        order: list[int] = np.argsort(-self.trace.live_bytes, kind="stable")[:count].tolist()
        return order

    @cached_property
    def last_allocation(self) -> int:
        """The last event that allocates: after it nothing can fail; -1 where none does."""
        return int(np.flatnonzero(self.trace.op == Op.ALLOC).max(initial=-1))

    @cached_property
    def allocations(self) -> int:
        """How many blocks are allocated."""
        return int((self.trace.op == Op.ALLOC).sum())

    @cached_property
    def records_streams(self) -> bool:
        """Whether frees wait for other streams: what is reused then depends on the GPU's pace."""
        return bool((self.trace.op == Op.RECORD_STREAM).any())

    def cannot_run(self, allocator: Allocator) -> str | None:
        """Return why this allocator cannot run these events, None where it can."""
        can = allocator.capabilities
        ops = set(self.ops)
        if self.trace.streams > 1 and Capability.STREAMS not in can:
            return f"{allocator.name} knows no streams, and this workload uses several"
        if Op.RECORD_STREAM in ops and Capability.RECORD_STREAM not in can:
            return f"{allocator.name} has no record_stream, and this workload calls it"
        if Op.TRIM in ops and Capability.CACHE in can and Capability.TRIM not in can:
            return f"{allocator.name} cannot give its cache back, and this workload asks for it"
        return None


@dataclass(frozen=True, slots=True)
class Replay:
    """How one run of a workload ended.

    `failed_event` is the index of the event that could not be served, with the allocator's own
    words in `error` and what it requested in `failed_request_bytes`. `seconds` is host time spent
    in events, observations left out; `peak_requested_bytes` is of the events done.
    """

    events_done: int
    peak_requested_bytes: int
    seconds: float
    failed_event: int | None = None
    failed_request_bytes: int = 0
    error: str = ""

    @property
    def completed(self) -> bool:
        """Whether every event was served."""
        return self.failed_event is None


def open_streams(script: Script, allocator: Allocator) -> None:
    """Create a workload's streams ahead of it: the driver takes memory for them too."""
    if Capability.STREAMS in allocator.capabilities:
        allocator.stream_handle(script.trace.streams - 1)


def restart(allocator: Allocator) -> None:
    """Return to the clean state where that can be done; a fresh process is clean."""
    if Capability.RESTART in allocator.capabilities:
        allocator.restart()


Observer = Callable[[int], None]
"""Called with the index of the event just done."""


def spaced(events: int, points: int, also: Sequence[int] = ()) -> list[int]:
    """Return about `points` evenly spaced event indices, the last one and those in `also`."""
    if events == 0:
        return []
    evenly = np.linspace(0, events - 1, min(points, events)).round().astype(int).tolist()
    return sorted({*evenly, *also})


AtEnd = Callable[[Replay, Sequence[int | None]], None]
"""Called with how it ended and the address of each block, None for those that are not alive."""


def replay(
    work: Trace | Script,
    allocator: Allocator,
    observe: Observer | None = None,
    points: Sequence[int] = (),
    *,
    last_event: int | None = None,
    at_end: AtEnd | None = None,
) -> Replay:
    """Run all events, or those up to `last_event`, on an opened allocator.

    `observe` is called after each event of `points` (ascending). `at_end` is called while all
    blocks are still held: after the last event, or when an allocation was refused. To run out of
    memory is a result; whatever else an allocator raises is passed on. The blocks that are left are
    freed, however the run ends.
    """
    script = work if isinstance(work, Script) else Script.of(work)
    run = _Run(script, allocator)
    try:
        result = run.go(observe, points, last_event)
        if at_end is not None:
            at_end(result, run.held)
    finally:
        run.free_all()
    return result


class _Run:
    """The blocks of one run."""

    def __init__(self, script: Script, allocator: Allocator) -> None:
        self._script = script
        self._allocator = allocator
        self.held: list[int | None] = [None] * (max(script.blocks, default=-1) + 1)
        """The address of each block that is alive."""
        self._home = [0] * len(self.held)  # The stream each block was allocated on.
        self._waits = Waits(allocator)

    def go(
        self, observe: Observer | None, points: Sequence[int], last: int | None = None
    ) -> Replay:
        """Do the events, those after the one numbered `last` left out."""
        script = self._script
        last = len(script) - 1 if last is None else last
        columns = zip(script.ops, script.blocks, script.sizes, script.streams, strict=True)
        events = enumerate(columns)
        seconds, start = 0.0, 0
        looked_at = set(points) if observe is not None else set()
        stops = sorted({*(stop for stop in looked_at if stop < last), last}) if script.ops else []
        for stop in stops:
            begin = time.perf_counter()
            failure = self._serve(islice(events, stop + 1 - start))
            seconds += time.perf_counter() - begin
            if failure is not None:
                return replace(failure, seconds=seconds)
            start = stop + 1
            if observe is not None and stop in looked_at:
                observe(stop)
        done = min(last + 1, len(script))
        return Replay(done, max(script.live_bytes[:done], default=0), seconds)

    def _serve(self, events: islice[tuple[int, tuple[int, int, int, int]]]) -> Replay | None:
        """Do some events; returns the failure if memory ran out."""
        held, home, allocator = self.held, self._home, self._allocator
        alloc, free = allocator.alloc, allocator.free
        event = size = 0
        try:
            for event, (op, block, size, stream) in events:  # noqa: B007 - for a failure
                if op == 0:  # Op.ALLOC: an enum member costs 30 ns at each comparison.
                    held[block] = alloc(size, stream)
                    home[block] = stream
                elif op == 1:  # Op.FREE
                    address, held[block] = held[block], None
                    free(address, stream)  # type: ignore[arg-type]
                elif op == _ALLOC_SHARED:
                    held[block] = allocator.alloc_shared(size, stream)
                    home[block] = stream
                else:
                    self._rarer(op, block, size, stream)
        except DeviceOutOfMemoryError as error:
            before = self._script.live_bytes[:event]
            return Replay(event, max(before, default=0), 0.0, event, size, str(error))
        return None

    def _rarer(self, op: int, block: int, size: int, stream: int) -> None:
        if op >= Op.POOL_BEGIN:
            if Capability.PRIVATE_POOLS in self._allocator.capabilities:
                self._route(op, size)
            return
        if op == Op.TRIM:
            # Without a cache there is nothing to release, and the program's call does nothing.
            if Capability.CACHE in self._allocator.capabilities:
                self._allocator.trim()
            return
        address = self.held[block]
        assert address is not None
        if op == Op.RECORD_STREAM:
            self._allocator.record_stream(address, stream)
        else:
            self._waits.wait(self._home[block], stream)

    def _route(self, op: int, pool: int) -> None:
        if op == Op.POOL_BEGIN:
            self._allocator.begin_pool(pool, self._script.trace.pools[pool - 1])
        elif op == Op.POOL_END:
            self._allocator.end_pool()
        else:
            self._allocator.release_pool(pool)

    def free_all(self) -> None:
        """Free what is still held, and let go of private pools."""
        for block, address in enumerate(self.held):
            if address is not None:
                self.held[block] = None
                self._allocator.free(address, self._home[block])
        self._allocator.release_pools()
        self._waits.close()


class Waits:
    """Lets one stream wait for another, with one CUDA event that is recorded anew each time."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._event: c_void_p | None = None

    def wait(self, first: int, then: int) -> None:
        """Let stream `then` wait for all that was queued on stream `first` so far."""
        if self._event is None:
            self._event = c_void_p()
            flags = c_uint(_EVENT_DISABLE_TIMING)
            runtime.call("cudaEventCreateWithFlags", byref(self._event), flags)
        handle = self._allocator.stream_handle
        runtime.call("cudaEventRecord", self._event, c_void_p(handle(first)))
        runtime.call("cudaStreamWaitEvent", c_void_p(handle(then)), self._event, c_uint(0))

    def close(self) -> None:
        """Destroy the event."""
        if self._event is not None:
            runtime.call("cudaEventDestroy", self._event)
            self._event = None
