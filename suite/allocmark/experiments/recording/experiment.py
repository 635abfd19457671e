"""A recording over one allocator setting: what it needs, what it costs, where it fails.

Not one of the suite's questions but one of a user's: it is started by `allocmark.replay` with a
trace of theirs, in the same fresh processes as every experiment. Figures: those of
`fragmentation_vector`, and

| metric | unit | meaning |
| --- | --- | --- |
| ``smallest_capacity_bytes``, ``resolution_bytes`` | bytes | the least memory, context apart, in which it completes, giving its cache back where it must; step of that search |
| ``completes`` | 0 or 1 | whether it completes in ``capacity_bytes`` |
| ``capacity_peak_reserved_bytes``, ``capacity_peak_segments``, ``capacity_retries``, ``capacity_driver_allocs``, ``capacity_driver_frees``, ``failed_event`` | | of that run |
| ``peak_segments`` | segments | most segments at once, without a limit |

Series ``address_map`` and ``address_cells`` where a picture was asked for, ``driver_calls`` and ``capacity_driver_calls`` (kind, size, calls), ``memory`` (the curve
without a limit) and ``capacity_memory`` (with it), ``segments`` and ``blocks`` with ``{at: failure}`` where the run in
``capacity_bytes`` failed, else ``{at: peak}`` where reserved memory is first at its peak. Notes ``setting``, ``peak_event``, ``error``.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Capability
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
    Script,
    open_streams,
    replay,
    replay_until,
    restart,
    spaced,
)
from allocmark.experiments.shared.fragmentation_vector import POINTS, figures, run_once
from allocmark.schema.figure import Figure
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads.event_trace import Op, Trace

_DRAWN_EVERY = max(1, POINTS // address_map.POINTS)
METER = "ballast, cudaMemGetInfo"
_WITHIN = (
    ("capacity_retries", "retries", "retries"),
    ("capacity_driver_allocs", "calls", "driver_allocs"),
    ("capacity_driver_frees", "calls", "driver_frees"),
)
_COLUMNS = ("op", "block", "size", "stream")


def save_events(path: Path, trace: Trace) -> None:
    """Write a trace's events for the children, uncompressed: a million must cost no seconds."""
    np.savez(path, **{name: getattr(trace, name) for name in _COLUMNS})


def load_events(path: Path) -> Trace:
    """Return what `save_events` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        return Trace(path.stem, *(stored[name] for name in _COLUMNS))


class ReplayRecording(Experiment):
    """One recording over one setting in one process."""

    name = "replay_recording"
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
        asked = request.parameters
        begin = time.monotonic()
        allocator.open(request.device)
        recorder.note("setting", setting_in_force(allocator))
        script = Script.of(load_events(Path(asked["events"])))
        reason = script.cannot_run(allocator)
        if reason is not None:
            raise NotMeasurableError(reason)
        open_streams(script, allocator)
        run = _Run(script, allocator, request.device, recorder, asked["picture"])
        with recorder.stage("without a limit"):
            run.without_limit(draw=asked["capacity_bytes"] is None)
        wanted = asked["capacity_bytes"] is not None or asked["seconds"] is not None
        if Capability.RESTART not in allocator.capabilities or not wanted:
            run.tell_if_known(asked["capacity_bytes"])
            return
        with Ballast(request.device) as ballast:
            if asked["capacity_bytes"] is not None:
                with recorder.stage("the capacity asked for"):
                    run.within(asked["capacity_bytes"], ballast)
            if asked["seconds"] is None:
                return
            with recorder.stage("the smallest capacity"):
                run.search(asked["seconds"] - (time.monotonic() - begin), ballast)


def allocator_for(request: Request) -> Allocator:
    """Return the allocator asked for: one of the registry, or torch under a setting of its own."""
    conf = request.parameters["conf"]
    if conf is not None:
        return TorchSetting(request.subject, conf)
    return registry(request.allocator_file)[request.subject]


class _Run:
    def __init__(
        self, script: Script, allocator: Allocator, device: int, recorder: Recorder, draws: bool
    ) -> None:
        self._draws = draws
        self._script, self._allocator = script, allocator
        self._device, self._recorder = device, recorder
        self._caches = Capability.CACHE in allocator.capabilities
        self._has_history = driver_history.keeps(allocator)
        self._serves_bytes: int | None = None
        alive = script.peak_requested_bytes // STEP_BYTES * STEP_BYTES
        self._fails_bytes = max(0, alive - STEP_BYTES)
        """Less than what is alive at once: nothing completes in it."""

    def without_limit(self, draw: bool) -> None:
        """Run with all the memory there is: the vector, the driver's calls, the map if asked."""
        script, allocator = self._script, self._allocator
        restart(allocator)
        if self._has_history:
            driver_history.begin()
        vector = run_once(script, allocator)
        history = driver_history.end(script, self._device) if self._has_history else None
        for figure in figures([vector], script, allocator, script.trace.name):
            self._recorder.figure(figure)
        self._recorder.series("memory", {}, **vector.curve)
        seen = vector.values
        held = int(max(seen["device_bytes"], seen.get("peak_reserved_bytes", 0)))
        self._serves_bytes = -(-held // STEP_BYTES) * STEP_BYTES
        if history is not None:
            self._tell(history, "")
            if draw:
                restart(allocator)
                self._map(history.peak_event, self._picture())
        elif Capability.CACHE not in allocator.capabilities:
            self._send_calls(_uncached(script.trace), "")

    def within(self, capacity_bytes: int, ballast: Ballast) -> None:
        """Run with that much left to it; say where it fails if it does, and draw that moment.

        Without a cache there is nothing to see in a run that is known to fit, and a device smaller
        than that shows no more than the run without a limit did.
        """
        if not self._caches and self.tell_if_known(capacity_bytes):
            return
        try:
            allocator = self._leave(capacity_bytes, ballast)
        except NotMeasurableError:
            if self.tell_if_known(capacity_bytes):
                return
            raise
        first = allocator.stats()
        if self._has_history:
            driver_history.begin()
        last_event = len(self._script) - 1
        fails = lambda held: self._send_map(held, "failure")  # noqa: E731
        curve: dict[str, list[float]] = {"event": [], "requested": [], "reserved": []}

        picture = self._picture()

        def observe(event: int) -> None:
            if picture is not None and len(curve["event"]) % _DRAWN_EVERY == 0:
                picture.take(event)
            curve["event"].append(event)
            curve["requested"].append(self._script.live_bytes[event])
            curve["reserved"].append(allocator.stats().reserved_bytes or 0)

        points = spaced(len(self._script), POINTS) if first.reserved_bytes is not None else []
        done = replay_until(
            *(self._script, allocator, last_event),
            on_failure=fails,
            observe=observe,
            points=points,
        )
        history = driver_history.end(self._script, self._device) if self._has_history else None
        last = allocator.stats()
        if points:
            self._recorder.series("capacity_memory", {}, **curve)
        if picture is not None:
            picture.send(self._recorder)
        self._figure("completes", "bool", int(done.completed))
        self._figure("capacity_bytes", "bytes", capacity_bytes)
        for metric, unit, name in _WITHIN:
            before, after = getattr(first, name), getattr(last, name)
            if before is not None and after is not None:
                self._figure(metric, unit, after - before)
        if last.peak_reserved_bytes is not None:
            self._figure("capacity_peak_reserved_bytes", "bytes", last.peak_reserved_bytes)
        if history is not None:
            self._tell(history, "capacity_")
        if done.failed_event is not None:
            self._fails_bytes = max(self._fails_bytes, capacity_bytes)
            self._figure("failed_event", "event", done.failed_event)
            self._recorder.note("error", done.error)
            return
        self._serves_bytes = min(self._serves_bytes or capacity_bytes, capacity_bytes)
        if history is not None:
            self._leave(capacity_bytes, ballast)
            self._map(history.peak_event, None)

    def tell_if_known(self, capacity_bytes: int | None) -> bool:
        """Tell that it completes in so much if it took no more without a limit; say whether."""
        if capacity_bytes is None or self._serves_bytes is None:
            return False
        if self._serves_bytes > capacity_bytes:
            return False
        self._figure("completes", "bool", 1)
        self._figure("capacity_bytes", "bytes", capacity_bytes)
        return True

    def search(self, seconds: float, ballast: Ballast) -> None:
        """Look for the smallest capacity in about that time."""
        if self._serves_bytes is None:
            raise NotMeasurableError("it completed in no run: there is no upper end to search from")

        if not self._caches:  # It can give nothing back, so it needs what it was seen to hold.
            self._figure("smallest_capacity_bytes", "bytes", self._serves_bytes)
            self._figure("resolution_bytes", "bytes", STEP_BYTES)
            return

        def completes(capacity_bytes: int) -> bool:
            return replay(self._script, self._leave(capacity_bytes, ballast)).completed

        live = self._script.peak_requested_bytes
        low = min(self._fails_bytes, self._serves_bytes)
        found = narrow(completes, live, low, self._serves_bytes, seconds)
        flags = () if found.settled else ("not-settled",)
        self._figure("smallest_capacity_bytes", "bytes", found.serves_bytes, flags)
        self._figure("resolution_bytes", "bytes", found.serves_bytes - found.fails_bytes)

    def _tell(self, history: DriverHistory, prefix: str) -> None:
        self._figure(f"{prefix}peak_segments", "segments", history.peak_segments)
        self._send_calls(history.counts, prefix)

    def _send_calls(self, counts: Mapping[tuple[int, int], int], prefix: str) -> None:
        kinds, sizes = zip(*sorted(counts), strict=True) if counts else ((), ())
        calls = [counts[key] for key in sorted(counts)]
        name = f"{prefix}driver_calls"
        self._recorder.series(name, {}, kind=kinds, size=sizes, calls=calls)

    def _picture(self) -> AddressMap | None:
        return AddressMap(self._device) if self._draws and self._has_history else None

    def _map(self, event: int, picture: AddressMap | None) -> None:
        """Draw the moment of that event, and the way there; the allocator is clean."""
        if event < 0:
            return
        self._recorder.note("peak_event", event)
        draw = lambda held: self._send_map(held, "peak")  # noqa: E731
        points = spaced(event + 1, address_map.POINTS) if picture is not None else []
        observe = picture.take if picture is not None else None
        replay_until(self._script, self._allocator, event, draw, observe=observe, points=points)
        if picture is not None:
            picture.send(self._recorder)

    def _send_map(self, held: Sequence[int | None], at: str) -> None:
        if self._has_history:
            block_map.send(self._recorder, held, self._device, {"at": at})

    def _leave(self, capacity_bytes: int, ballast: Ballast) -> Allocator:
        self._allocator.restart()
        # A pool that does not let go of its last bytes has them at its disposal.
        kept = self._allocator.stats().reserved_bytes or 0
        ballast.leave(capacity_bytes - kept)
        return self._allocator

    def _figure(self, metric: str, unit: str, value: float, flags: Sequence[str] = ()) -> None:
        self._recorder.figure(
            Figure(metric, unit, "sampled", METER, {}, value, [value], flags=flags)
        )


def _uncached(trace: Trace) -> Counter[tuple[int, int]]:
    """Return the driver calls of an allocator without a cache: each event is one."""
    sizes = np.zeros(int(trace.block.max(initial=-1)) + 1, dtype=np.int64)
    allocs, frees = trace.op == Op.ALLOC, trace.op == Op.FREE
    sizes[trace.block[allocs]] = trace.size[allocs]
    counts: Counter[tuple[int, int]] = Counter()
    for kind, asked in ((0, trace.size[allocs]), (1, sizes[trace.block[frees]])):
        for size, calls in zip(*np.unique(asked, return_counts=True), strict=True):
            counts[kind, int(size)] = int(calls)
    return counts


EXPERIMENT = ReplayRecording()
