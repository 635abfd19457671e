"""The way of a request from ``.cuda()`` to memory: which branch it takes, what each costs.

Document ``request_path``, subject ``torch-native`` alone: it is the way through torch's native
allocator. One child, three parts; the metrics are in docs/metrics.md.

**Crafted programs**: a cache is filled, a memory fraction set, and one request of 32 MiB made that
takes one branch; torch's own counters say what it did, and repeats how long it took. All branches
are timed by one instrument, torch's raw entry point called from Python.

**Workloads**: each is run without a limit and under a memory fraction of 1.1 live peaks, torch's
history is kept, and each request counted by the branch it took (`branches`).

**The copy** that ``.cuda()`` ends with: from pageable and from pinned memory of the host into a
block that is there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import NATIVE
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.request_path import branches, copies, programs
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import request_path as metrics
from allocmark.schema.notes import SETTING
from allocmark.workloads import catalog


class RequestPath(AllocatorExperiment):
    """All of it in one process: programs first, since a fraction once set stays set."""

    name = metrics.EXPERIMENT
    order = 75

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        return allocator.name == NATIVE

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        return [{"workloads": list(catalog.names())}]

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        recorder.note(SETTING, setting_in_force(allocator))
        with recorder.stage("steps"):
            programs.measure_steps(allocator, recorder)
        with recorder.stage("copies"):
            copies.measure_copies(recorder)
        with recorder.stage("branches"):
            programs.measure_branches(recorder)
        for workload in request.parameters["workloads"]:
            with recorder.stage(workload):
                branches.measure_workload(workload, allocator, request.device, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        return fill(outcomes, _cells(outcomes))


def _cells(outcomes: Sequence[ChildOutcome]) -> Iterator[Cell]:
    for workload in outcomes[0].request.parameters["workloads"]:
        for memory in metrics.MEMORIES:
            for branch in metrics.BRANCHES:
                place = {"workload": workload, "memory": memory, "branch": branch}
                yield place, (metrics.BRANCH_REQUESTS,)
    yield from (({"bytes": size}, (metrics.TAKEN_BYTES,)) for size in metrics.ROUNDED_BYTES)
    yield from (({"step": step}, (metrics.STEP_SEEN,)) for step in metrics.STEPS)
    for branch in metrics.CRAFTED:
        for counter in metrics.COUNTERS:
            yield {"branch": branch, "counter": counter}, (metrics.CRAFTED_CALLS,)
    for branch in metrics.TIMED:
        yield {"branch": branch, "bytes": metrics.TIMED_BYTES}, (metrics.BRANCH_NS,)
    for size in metrics.COPIED_BYTES:
        for host in metrics.HOSTS:
            yield {"bytes": size, "host": host}, (metrics.COPY_NS,)


EXPERIMENT = RequestPath()
