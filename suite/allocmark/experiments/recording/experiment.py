"""A recording over one allocator setting: what it needs, what it costs, where it fails.

Not one of the suite's questions but one of a user's: it is started by `allocmark.replay` with a
trace of theirs, in the same fresh processes as every experiment. Metrics: those of
`fragmentation_vector` and of docs/metrics.md.

Series ``address_map``, ``address_cells`` and ``memory_tracks`` where a picture was requested,
``driver_calls`` and ``capacity_driver_calls`` (kind, size, calls), ``memory`` (the curve without a
limit) and ``capacity_memory`` (with it), ``segments`` and ``blocks`` with ``{at: failure}`` where
the run in ``capacity_bytes`` failed, else ``{at: peak}`` where reserved memory is first at its
peak. Notes ``setting``, ``peak_event``, ``error``. The axis ``room`` of figures in a capacity is
``recorded`` for a run in the memory that the recorded one had, to hold both against each other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Capability, PoolKind, Stats
from allocmark.allocators.torch_caching import TorchSetting
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import Request
from allocmark.experiments.shared import address_map, block_map, driver_history
from allocmark.experiments.shared.address_map import AddressMap
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.experiments.shared.ballast import STEP_BYTES, Ballast
from allocmark.experiments.shared.capacity_bracket import narrow
from allocmark.experiments.shared.driver_history import DriverHistory
from allocmark.experiments.shared.event_replay import (
    Replay,
    Script,
    open_streams,
    replay,
    restart,
    spaced,
)
from allocmark.experiments.shared.fragmentation_vector import POINTS, figures, run_once
from allocmark.experiments.shared.memory_fraction import MemoryFraction
from allocmark.schema import notes
from allocmark.schema.flags import NOT_SETTLED
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import recording as metrics
from allocmark.schema.metrics.fragmentation import DEVICE_BYTES, MEMORY, PEAK_RESERVED_BYTES
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads.event_trace import Op, Trace

_DRAWN_EVERY = max(1, POINTS // address_map.POINTS)
METER = "ballast, cudaMemGetInfo"
_WITHIN = {
    metrics.CAPACITY_RETRIES: "retries",
    metrics.CAPACITY_DRIVER_ALLOCS: "driver_allocs",
    metrics.CAPACITY_DRIVER_FREES: "driver_frees",
}
"""The counters of which it gives what a run in the capacity adds."""
_COLUMNS = ("op", "block", "size", "stream")


def save_events(path: Path, trace: Trace) -> None:
    """Write a trace's events for the children, uncompressed: a million must cost no seconds."""
    columns = {name: getattr(trace, name) for name in _COLUMNS}
    np.savez(path, pools=np.array(trace.pools, np.str_), **columns)


def load_events(path: Path) -> Trace:
    """Return what `save_events` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        pools = tuple(map(PoolKind, stored["pools"].tolist()))
        return Trace(path.stem, **{name: stored[name] for name in _COLUMNS}, pools=pools)


class RecordedJob(Experiment):
    """One recording over one setting in one process."""

    name = metrics.EXPERIMENT
    order = 100
    on_demand = True

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        return []  # A run of the suite does not measure a user's recordings.

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        return []

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        allocator = allocator_for(request)
        allocator.prepare()
        return partial(self.measure, request, allocator)

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        parameters = request.parameters
        capacity_bytes, seconds = parameters["capacity_bytes"], parameters["seconds"]
        begin = time.monotonic()
        allocator.open(request.device)
        limit = MemoryFraction(
            allocator,
            parameters.get("allowed_bytes"),
            parameters.get("fraction"),
            parameters.get("outside_bytes", 0),
        )
        limit.within(capacity_bytes)
        recorder.note(notes.SETTING, setting_in_force(allocator))
        script = Script.of(load_events(Path(parameters["events"])))
        reason = script.cannot_run(allocator)
        if reason is not None:
            raise NotMeasurableError(reason)
        open_streams(script, allocator)
        run = _Run(script, allocator, request.device, recorder, limit, parameters["picture"])
        with recorder.stage("without a limit"):
            run.without_limit(draw=capacity_bytes is None)
        recorded = parameters.get("recorded_room")
        wanted = any(given is not None for given in (capacity_bytes, seconds, recorded))
        if Capability.RESTART not in allocator.capabilities or not wanted:
            run.completes_if_known(capacity_bytes)
            return
        with Ballast(request.device) as ballast:
            if capacity_bytes is not None:
                with recorder.stage(metrics.WITHIN):
                    run.within(capacity_bytes, ballast)
            if recorded is not None:
                with recorder.stage(metrics.RECORDED):
                    run.in_recorded_room(ballast, *recorded)
            if seconds is None:
                return
            with recorder.stage(metrics.SEARCH):
                run.search(seconds - (time.monotonic() - begin), ballast)


def allocator_for(request: Request) -> Allocator:
    """Return a request's allocator: one of the registry, or torch under a setting of its own."""
    conf = request.parameters["conf"]
    if conf is not None:
        return TorchSetting(request.subject, conf)
    return registry(request.allocator_file)[request.subject]


class _Run:
    def __init__(
        self,
        script: Script,
        allocator: Allocator,
        device: int,
        recorder: Recorder,
        limit: MemoryFraction,
        draws: bool,
    ) -> None:
        self._draws, self._limit = draws, limit
        self._script, self._allocator = script, allocator
        self._device, self._recorder = device, recorder
        self._caches = Capability.CACHE in allocator.capabilities
        self._has_history = driver_history.keeps(allocator)
        self._serves_bytes: int | None = None
        alive = script.peak_requested_bytes // STEP_BYTES * STEP_BYTES
        self._fails_bytes = max(0, alive - STEP_BYTES)
        """Less than what is alive at once: nothing completes in it."""

    def without_limit(self, draw: bool) -> None:
        """Run with all the memory there is: the vector, the driver's calls, the map if wanted."""
        script, allocator = self._script, self._allocator
        self._limit.lift()
        restart(allocator)
        if self._has_history:
            driver_history.begin()
        vector = run_once(script, allocator)
        history = driver_history.end(script, self._device) if self._has_history else None
        for figure in figures([vector], script, allocator, script.trace.name):
            self._recorder.figure(figure)
        self._recorder.series(MEMORY, {}, **vector.curve)
        seen = vector.values
        held = int(max(seen[DEVICE_BYTES.name], seen.get(PEAK_RESERVED_BYTES.name, 0)))
        self._serves_bytes = -(-held // STEP_BYTES) * STEP_BYTES
        if history is not None:
            self._figure(metrics.PEAK_SEGMENTS, history.peak_segments)
            self._send_calls(history.counts, metrics.DRIVER_CALLS)
            if draw:
                restart(allocator)
                self._map(history.peak_event, self._picture())
        elif Capability.CACHE not in allocator.capabilities:
            self._send_calls(_uncached(script.trace), metrics.DRIVER_CALLS)

    def within(self, capacity_bytes: int, ballast: Ballast) -> None:
        """Run with that much left to it; note where it fails, if it does, and draw what is held.

        Without a cache there is nothing to see in a run that is known to fit, and a device smaller
        than that shows no more than the run without a limit did.
        """
        if not self._caches and self.completes_if_known(capacity_bytes):
            return
        self._limit.within(capacity_bytes)
        try:
            allocator = self._leave(self._limit.device_bytes(capacity_bytes), ballast)
        except NotMeasurableError:
            if self.completes_if_known(capacity_bytes):
                return
            raise
        first = allocator.stats()
        if self._has_history:
            driver_history.begin()
        curve: dict[str, list[float]] = {"event": [], "requested": [], "reserved": []}

        picture = self._picture()

        def observe(event: int) -> None:
            if picture is not None and len(curve["event"]) % _DRAWN_EVERY == 0:
                picture.take(event)
            curve["event"].append(event)
            curve["requested"].append(self._script.live_bytes[event])
            curve["reserved"].append(allocator.stats().reserved_bytes or 0)

        def draw_failure(done: Replay, held: Sequence[int | None]) -> None:
            if not done.completed:
                self._send_map(held, metrics.FAILURE)

        points = spaced(len(self._script), POINTS) if first.reserved_bytes is not None else []
        done = replay(self._script, allocator, observe, points, at_end=draw_failure)
        history = driver_history.end(self._script, self._device) if self._has_history else None
        if points:
            self._recorder.series(metrics.CAPACITY_MEMORY, {}, **curve)
        if picture is not None:
            picture.send(self._recorder)
        self._send_run(done, first, allocator.stats(), history, capacity_bytes, metrics.ANSWERED)
        if history is not None:
            self._send_calls(history.counts, metrics.CAPACITY_DRIVER_CALLS)
        if done.failed_event is not None:
            if self._limit.allowed_bytes is None:
                self._fails_bytes = max(self._fails_bytes, capacity_bytes)
            self._recorder.note("error", done.error)
            return
        served = min(capacity_bytes, self._limit.allowed_bytes or capacity_bytes)
        self._serves_bytes = min(self._serves_bytes or served, served)
        if history is not None:
            self._leave(capacity_bytes, ballast)
            self._map(history.peak_event, None)

    def in_recorded_room(
        self, ballast: Ballast, capacity_bytes: int, allowed_bytes: int | None
    ) -> None:
        """Run in the memory that the recorded run had, to hold both against each other."""
        self._limit.set(allowed_bytes)
        allocator = self._leave(capacity_bytes, ballast)
        first = allocator.stats()
        if self._has_history:
            driver_history.begin()
        done = replay(self._script, allocator)
        history = driver_history.end(self._script, self._device) if self._has_history else None
        last = allocator.stats()
        self._send_run(done, first, last, history, capacity_bytes, metrics.RECORDED_ROOM)

    def _send_run(
        self,
        done: Replay,
        first: Stats,
        last: Stats,
        history: DriverHistory | None,
        capacity_bytes: int,
        room: str,
    ) -> None:
        self._figure(metrics.COMPLETES, int(done.completed), room=room)
        self._figure(metrics.CAPACITY_BYTES, capacity_bytes, room=room)
        for metric, name in _WITHIN.items():
            before, after = getattr(first, name), getattr(last, name)
            if before is not None and after is not None:
                self._figure(metric, after - before, room=room)
        if last.peak_reserved_bytes is not None:
            peak = last.peak_reserved_bytes
            self._figure(metrics.CAPACITY_PEAK_RESERVED_BYTES, peak, room=room)
        if history is not None:
            self._figure(metrics.CAPACITY_PEAK_SEGMENTS, history.peak_segments, room=room)
        if done.failed_event is not None:
            self._figure(metrics.FAILED_EVENT, done.failed_event, room=room)

    def completes_if_known(self, capacity_bytes: int | None) -> bool:
        """Send that it completes in so much if it took no more without a limit; return whether."""
        if capacity_bytes is None or self._serves_bytes is None:
            return False
        if self._serves_bytes > min(capacity_bytes, self._limit.allowed_bytes or capacity_bytes):
            return False
        self._figure(metrics.COMPLETES, 1, room=metrics.ANSWERED)
        self._figure(metrics.CAPACITY_BYTES, capacity_bytes, room=metrics.ANSWERED)
        return True

    def search(self, seconds: float, ballast: Ballast) -> None:
        """Look for the smallest capacity in about that time."""
        if self._serves_bytes is None:
            raise NotMeasurableError("it completed in no run: there is no upper end to search from")
        if not self._caches:  # It can release nothing, so it needs what it was seen to hold.
            self._figure(metrics.SMALLEST_CAPACITY_BYTES, self._serves_bytes)
            self._figure(metrics.RESOLUTION_BYTES, STEP_BYTES)
            return

        def completes(capacity_bytes: int) -> bool:
            self._limit.search(capacity_bytes)
            return replay(self._script, self._leave(capacity_bytes, ballast)).completed

        live = self._script.peak_requested_bytes
        high = self._limit.least_capacity(self._serves_bytes)
        low = min(self._limit.least_capacity(self._fails_bytes), high)
        found = narrow(completes, live, low, high, seconds)
        flags = () if found.settled else (NOT_SETTLED,)
        self._figure(metrics.SMALLEST_CAPACITY_BYTES, found.serves_bytes, flags)
        self._figure(metrics.RESOLUTION_BYTES, found.serves_bytes - found.fails_bytes)

    def _send_calls(self, counts: Mapping[tuple[int, int], int], name: str) -> None:
        kinds, sizes = zip(*sorted(counts), strict=True) if counts else ((), ())
        calls = [counts[key] for key in sorted(counts)]
        self._recorder.series(name, {}, kind=kinds, size=sizes, calls=calls)

    def _picture(self) -> AddressMap | None:
        if not (self._draws and self._has_history):
            return None
        numbers = range(self._script.trace.streams)
        streams = {self._allocator.stream_handle(number): number for number in numbers}
        return AddressMap(self._allocator, self._device, streams)

    def _map(self, event: int, picture: AddressMap | None) -> None:
        """Draw what is held at that event, and the way there; the allocator is clean."""
        if event < 0:
            return
        self._recorder.note(notes.PEAK_EVENT, event)

        def draw(done: Replay, held: Sequence[int | None]) -> None:
            if done.completed:
                self._send_map(held, metrics.PEAK)

        points = spaced(event + 1, address_map.POINTS) if picture is not None else []
        observe = picture.take if picture is not None else None
        replay(self._script, self._allocator, observe, points, last_event=event, at_end=draw)
        if picture is not None:
            picture.send(self._recorder)

    def _send_map(self, held: Sequence[int | None], at: str) -> None:
        if self._has_history:
            pools = self._allocator.private_pools()
            block_map.send(self._recorder, held, pools, self._device, {"at": at})

    def _leave(self, capacity_bytes: int, ballast: Ballast) -> Allocator:
        self._allocator.restart()
        # A pool that does not let go of its last bytes has them at its disposal.
        kept = self._allocator.stats().reserved_bytes or 0
        ballast.leave(capacity_bytes - kept)
        return self._allocator

    def _figure(
        self,
        metric: Metric,
        value: float,
        flags: Sequence[str] = (),
        room: str | None = None,
    ) -> None:
        axes = {} if room is None else {metrics.ROOM: room}
        self._recorder.figure(metric.figure(METER, axes, value, [value], flags=flags))


def _uncached(trace: Trace) -> Counter[tuple[int, int]]:
    """Return the driver calls of an allocator without a cache: each event is one."""
    sizes = np.zeros(int(trace.block.max(initial=-1)) + 1, dtype=np.int64)
    allocs, frees = trace.op == Op.ALLOC, trace.op == Op.FREE
    sizes[trace.block[allocs]] = trace.size[allocs]
    counts: Counter[tuple[int, int]] = Counter()
    for kind, requested in ((0, trace.size[allocs]), (1, sizes[trace.block[frees]])):
        for size, calls in zip(*np.unique(requested, return_counts=True), strict=True):
            counts[kind, int(size)] = int(calls)
    return counts


EXPERIMENT = RecordedJob()
