"""The smallest capacity in which a workload completes: what a person with an OOM wants to know.

*Capacity* has one definition: bytes left to the process after its context. A ballast (see
`shared.ballast`) makes it, cudaMemGetInfo in the measuring process confirms it, and a search from
the live peak on finds the smallest one (`shared.capacity_search`): what a failed run was short of
is the next guess. The answer has a run one step above and a failed one below. An allocator without
a cache holds only what is live, and each of its runs takes long: there the search begins at what it
held. The allocator starts clean before each run; its own way out of a full device (release the
cache, try again) is part of the answer. A setting that acts on the process's memory fraction has
the capacity as its fraction.

Document ``capacity``, subject = allocator, settings too, axes ``{workload}``; the metrics are in
docs/metrics.md. Of two that make the same requests of the driver a GPU searches one, unless the
other is requested by name. The step of the search is 0.5 % of the live peak, at least 2 MiB,
coarser where the time does not reach so far.

Flags of ``smallest_capacity_bytes``: ``not-monotonic`` (a larger one failed than one that
completed: the answer lies above the largest that failed), ``above-unlimited-peak``. Series
``search``, axes ``{workload}``: ``capacity`` in bytes, ``completed`` (0 or 1), ``events`` done, one
point a run in the order made.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from allocmark.allocators.base import Allocator, Capability
from allocmark.cuda import runtime
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment, is_base
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.experiments.shared.ballast import Ballast
from allocmark.experiments.shared.capacity_search import smallest_capacity
from allocmark.experiments.shared.event_replay import Replay, Script, open_streams, replay
from allocmark.experiments.shared.fragmentation_vector import run_once
from allocmark.machine.emulated import is_emulated
from allocmark.schema.figure import Figure
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import capacity as metrics
from allocmark.schema.metrics.fragmentation import DEVICE_BYTES, PEAK_RESERVED_BYTES, REPLAY_SECONDS
from allocmark.schema.notes import SETTING
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads import catalog

_METRICS = (
    metrics.SMALLEST_CAPACITY_BYTES,
    metrics.CAPACITY_RATIO,
    metrics.RESOLUTION_BYTES,
    metrics.UNLIMITED_DEVICE_BYTES,
    metrics.SEARCH_RUNS,
)
METER = "ballast, cudaMemGetInfo"
_SEARCH_S = 6.0
"""What the searches of one allocator may take."""
_SEARCH_SETTING_S = 8.0
"""The same of a setting: under some the driver is asked often."""
_SEARCH_UNCACHED_S = 24.0
"""The same where each request goes to the driver: time for the fewest runs of all workloads."""
_SEARCH_PATIENT_S = 60.0
"""Where it is requested by its names, and on the emulated driver, whose host is often small."""
_MORE_S = 48.0
"""What start-up and the runs without a limit may take besides."""
_FEWEST_RUNS, _FEWEST_RUNS_UNCACHED = 4, 3
_SHORTEST_RUN_S = 1e-3
_EXTENT_MARGIN = 1.25


@dataclass(frozen=True, slots=True)
class _Task:
    """One workload, having run without a limit by an allocator with a cache or without."""

    workload: str
    script: Script
    unlimited_bytes: int
    run_seconds: float
    cached: bool

    @property
    def fewest_runs(self) -> int:
        """The runs without which a search says nothing."""
        return _FEWEST_RUNS if self.cached else _FEWEST_RUNS_UNCACHED

    @property
    def least_seconds(self) -> float:
        """The time that those take."""
        return self.fewest_runs * max(self.run_seconds, _SHORTEST_RUN_S)


class Capacity(AllocatorExperiment):
    """All searches of one allocator in one process, with one ballast."""

    name = metrics.EXPERIMENT
    order = 40

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        if not profile.capacity_search or Capability.RESTART not in allocator.capabilities:
            return False
        # Runs are cheap on the emulated driver.
        return allocator.same_driver_calls is None or is_emulated() or profile.patient

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        seconds = _SEARCH_S if is_base(allocator) else _SEARCH_SETTING_S
        if Capability.CACHE not in allocator.capabilities:
            seconds = _SEARCH_UNCACHED_S
        seconds = _SEARCH_PATIENT_S if is_emulated() or profile.patient else seconds
        return [{"workloads": list(catalog.names()), "search_seconds": seconds}]

    def limit_s(self, parameters: Mapping[str, Any]) -> float:
        return float(parameters["search_seconds"]) + _MORE_S

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        if allocator.needs_limit:
            allocator.limit(runtime.memory_info()[0])
        recorder.note(SETTING, setting_in_force(allocator))
        seconds: float = request.parameters["search_seconds"]
        deadline = time.monotonic() + seconds
        tasks: list[_Task] = []
        for workload in request.parameters["workloads"]:
            with recorder.stage(f"{workload} without a limit"), _cells(workload, recorder):
                if sum(task.least_seconds for task in tasks) > seconds:
                    raise NotMeasurableError(_left_out("the searches of others fill", seconds))
                tasks.append(_unlimited(workload, allocator))
        tasks.sort(key=lambda task: task.run_seconds)  # So that time reaches as many as it can.
        with Ballast(request.device) as ballast:
            for place, task in enumerate(tasks):
                with recorder.stage(task.workload), _cells(task.workload, recorder):
                    left = deadline - time.monotonic()
                    share = max(left / (len(tasks) - place), min(left, task.least_seconds))
                    if share < task.least_seconds:
                        runs = f"{task.fewest_runs} runs of {task.run_seconds:.1f} s"
                        why = f"a search needs {runs}, too long for what is left of"
                        raise NotMeasurableError(_left_out(why, seconds))
                    _Search(task, allocator, ballast).report(share, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        workloads = [w for outcome in outcomes for w in outcome.request.parameters["workloads"]]
        figures = fill(outcomes, [_cell(workload) for workload in workloads])
        return sorted(figures, key=lambda figure: workloads.index(str(figure.axes["workload"])))


def _cell(workload: str) -> Cell:
    return {"workload": workload}, _METRICS


@contextmanager
def _cells(workload: str, recorder: Recorder) -> Iterator[None]:
    """Give all cells of a workload the reason of whatever is raised inside."""
    try:
        yield
    except Exception as error:
        recorder.unfilled([_cell(workload)], in_words(error))
        raise


def _unlimited(workload: str, allocator: Allocator) -> _Task:
    """Run a workload without a limit, to know where to search and what a run costs."""
    script = Script.of(catalog.load(workload))
    reason = script.cannot_run(allocator)
    if reason is not None:
        raise NotMeasurableError(reason)
    open_streams(script, allocator)
    allocator.restart()
    seen = run_once(script, allocator).values
    upper = max(seen[DEVICE_BYTES.name], seen[PEAK_RESERVED_BYTES.name])
    extent = allocator.used_extent_bytes()
    if extent is not None:
        # A region is taken whole, whatever is used of it; in a smaller one blocks lie otherwise.
        upper = min(upper, _EXTENT_MARGIN * extent)
    cached = Capability.CACHE in allocator.capabilities
    return _Task(workload, script, int(upper), seen[REPLAY_SECONDS.name], cached)


def _left_out(why: str, seconds: float) -> str:
    reason = f"left out: {why} the {seconds:.0f} s for all workloads"
    if seconds >= _SEARCH_PATIENT_S:
        return reason
    return f"{reason} (with --experiment and --subject there are {_SEARCH_PATIENT_S:.0f})"


class _Search:
    """The search for one workload."""

    def __init__(self, task: _Task, allocator: Allocator, ballast: Ballast) -> None:
        self._task, self._allocator, self._ballast = task, allocator, ballast
        self._runs: list[Replay] = []
        self._free: list[int] = []

    def attempt(self, capacity_bytes: int) -> int | None:
        """Run the workload with that much left to it: None where it completed, else how much the
        failed request would have needed beside what was still held."""
        allocator = self._allocator
        allocator.restart()
        # A pool that does not let go of its last bytes has them at its disposal.
        kept = allocator.stats().reserved_bytes or 0
        self._free.append(self._ballast.leave(capacity_bytes - kept) + kept)
        allocator.limit(self._free[-1])
        held = 0

        def at_end(run: Replay, _: object) -> None:
            nonlocal held
            if not run.completed:
                held = allocator.stats().reserved_bytes or 0

        run = replay(self._task.script, allocator, at_end=at_end)
        self._runs.append(run)
        if run.completed:
            return None
        return held and held + run.failed_request_bytes

    def report(self, seconds: float, recorder: Recorder) -> None:
        """Search within about that time, and send what was found."""
        task = self._task
        live_peak = task.script.peak_requested_bytes
        end = time.monotonic() + seconds
        found = smallest_capacity(
            self.attempt,
            live_peak,
            task.unlimited_bytes,
            live_only=not task.cached,
            more=lambda: time.monotonic() < end,
        )
        axes = {"workload": task.workload}
        recorder.series(
            metrics.SEARCH,
            axes,
            capacity=self._free,
            completed=[int(run.completed) for run in self._runs],
            events=[run.events_done for run in self._runs],
        )
        measured: dict[Metric, float] = {
            metrics.RESOLUTION_BYTES: found.resolution_bytes,
            metrics.UNLIMITED_DEVICE_BYTES: task.unlimited_bytes,
            metrics.SEARCH_RUNS: len(found.tried),
        }
        if found.capacity_bytes is None:
            empty = metrics.SMALLEST_CAPACITY_BYTES, metrics.CAPACITY_RATIO
            reason = (
                f"did not complete even with {found.tried[-1][0]} bytes, more than it holds "
                f"without a limit: {self._runs[-1].error}"
            )
            recorder.unfilled([(axes, empty)], reason)
        else:
            measured[metrics.SMALLEST_CAPACITY_BYTES] = found.capacity_bytes
            measured[metrics.CAPACITY_RATIO] = found.capacity_bytes / live_peak
        for metric, value in measured.items():
            flags = found.flags if metric is metrics.SMALLEST_CAPACITY_BYTES else ()
            recorder.figure(metric.figure(METER, axes, value, [value], flags=flags))


EXPERIMENT = Capacity()
