"""Runs an experiment once for each fault, on the emulated driver: ``python fault_support.py``.

A document is written for each *cell*, a fault at a stage of the run (``context-lost``), and for a
run without a fault before and after all of them. The experiment is the suite's own, with fewer
samples; only its child processes meet the fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES, Experiment, Profile
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.machine.stack import read_stack
from allocmark.measure.progress import Progress
from allocmark.measure.session import Session, measure_experiments
from allocmark.schema.figure import Figure
from allocmark.system.units import GIB, MIB

EVERY = "ALLOCMARK_TEST_EVERY_FAULT"
"""Set to try every kind of fault at every stage, over torch too; else one kind at each stage."""

BEFORE, AFTER = "before", "after"
MEMORY = "8GiB"
LIMIT_S, HANG_LIMIT_S = 30.0, 2.5

ACTIONS: Mapping[str, str] = {
    "memory": "error:2",  # out of memory
    "failure": "error:719",  # a launch that failed, as a kernel's illegal address shows later
    "lost": "lost",
    "crash": "crash",
    "hang": "hang",
    "delay": "delay:20",
    "steal": f"steal:{64 * MIB}",
}
"""Kind of fault to what the emulated driver calls it."""
TOLD = ("memory", "failure", "lost", "crash", "hang")
"""Kinds that a document must tell of; the others cost time or memory that is there."""

_RUNTIME: Mapping[str, str] = {
    "init": "*@1",
    "context": "cudaSetDevice@1",
    "first alloc": "cudaMalloc@1",
    "mid-workload": "cudaMalloc@9",
    "free": "cudaFree@3",
}
_POOL: Mapping[str, str] = {
    "init": "*@1",
    "context": "cudaSetDevice@1",
    "first alloc": "cudaMallocAsync@1",
    "mid-workload": "cudaMallocAsync@9",
    "free": "cudaFreeAsync@3",
    "sync": "cudaDeviceSynchronize@1",
}
_DRIVER: Mapping[str, str] = {
    "init": "cuInit@1",
    "context": "cuDevicePrimaryCtxRetain@1",
    "first alloc": "cuMemAlloc@1",
    "mid-workload": "cuLaunchKernel@1",
    "sync": "cuCtxSynchronize@1",
}
_NVML = {"nvml": "nvmlDeviceGetMemoryInfo@2+"}
_TORCH: Mapping[str, str] = {
    "init": "cudaGetDeviceCount@1",
    "context": "cudaSetDevice@1",
    "first alloc": "cudaMalloc@1",
    "mid-workload": "cudaMalloc@9",
    "free": "cudaFree@3",
    "sync": "cudaDeviceSynchronize@2",
}


@dataclass(frozen=True)
class Short:
    """An experiment cut short to its first child: of which subject, in which profile.

    `stages` maps a stage of the run to the call at which it is met; `parameters` replace some of
    the child's.
    """

    subject: str
    stages: Mapping[str, str]
    profile: str = "quick"
    parameters: Mapping[str, Any] | None = None
    experiment: str = ""
    """Where the key is not its name."""
    takes_seconds: bool = False
    """Whether only every second stage is tried by default."""


_FEW = {"hit_batches": 5, "single_calls": 20, "miss_samples": 2, "miss_seconds": 5.0}
"""Few enough to be taken whole on a busy machine too: a fault is met at a call's number."""
SHORT: Mapping[str, Short] = {
    "context": Short("driver", {**_DRIVER, **_NVML}),
    "latency": Short(
        "cuda-malloc",
        {**_RUNTIME, "mid-workload": "cudaMalloc@3", "sync": "cudaDeviceSynchronize@1"},
        parameters={"sizes": [MIB], "largest_bytes": GIB, **_FEW},
        takes_seconds=True,
    ),
    "fragmentation": Short(
        "cuda-malloc", _RUNTIME, parameters={"workloads": ["uniform", "pinned"], "repeats": 1}
    ),
    "capacity": Short(
        *("cuda-malloc", _RUNTIME, "full"),
        parameters={"workloads": ["pinned"], "search_seconds": 30.0},
    ),
    "streams": Short("cuda-malloc-async-0", _POOL, parameters={"repeats": 1}, takes_seconds=True),
    "torch": Short(
        "torch-native",
        _TORCH,
        parameters={"workloads": ["uniform", "pinned"], "repeats": 1},
        experiment="fragmentation",
    ),
    "pressure": Short("cuda-malloc-async-max", {**_POOL, **_NVML}),
}


class Cells(Experiment):
    """Has a subject for each cell; its children are those of the one real subject."""

    def __init__(self, name: str, cells: Sequence[str]) -> None:
        self._short = SHORT[name]
        self._real = catalog.experiment(self._short.experiment or name)
        self.name = self._real.name  # type: ignore[misc]  # one class stands for all of them
        self._cells = cells

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        return [BEFORE, *self._cells, AFTER]

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        stage, _, kind = subject.rpartition("-")
        first, *_ = self._real.requests(self._short.subject, profile, allocators)
        return [self._cut(first, stage, kind)]

    def _cut(self, request: Request, stage: str, kind: str) -> Request:
        environment = dict(request.environment)
        if stage:
            rule = f"{self._short.stages[stage]}={ACTIONS[kind]}"
            environment["ALLOCMARK_EMULATOR_FAULTS"] = rule
        return replace(
            request,
            parameters={**request.parameters, **(self._short.parameters or {})},
            environment=environment,
            limit_s=HANG_LIMIT_S if kind == "hang" else LIMIT_S,
        )

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        raise NotImplementedError  # the child takes the real experiment by its name

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        return self._real.combine(outcomes)


def main(name: str, results: str, cells: str) -> None:
    """Measure all cells of an experiment; the documents lie below `results`."""
    profile = PROFILES[SHORT[name].profile]
    session = Session(
        results=Path(results),
        stack=read_stack("cuda", 0),
        profile=profile,
        run="run",
        progress=Progress(sys.stderr),
        takes_over=False,
        allocators=list(registry().values()),
    )
    made = Cells(name, json.loads(cells))
    for path in measure_experiments(session, [made]):
        print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
