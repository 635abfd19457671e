"""Behaviour under memory pressure: what the counters show, and the way to a failed allocation.

Document ``pressure``, subject = allocator. Two children, so that neither disturbs the other.

**Counters** (base allocators that cache): a GiB is taken, half of it freed block by block, the
cache given back, the rest freed, the cache given back. Kind ``exact`` for the allocator's own
counters, ``sampled`` for cudaMemGetInfo and NVML.

**Towards an OOM** (``torch-native``; in full ``torch-expandable`` too; on the emulated driver, and
where asked for by name, three settings more): each workload in fixed shares of its live peak, made
by a ballast. ``*_before`` is what was seen at least 100 events before the failure, or before the
last allocation of a run that completed (a run that ends earlier has none of them). Of the events
looked at, about 200, ``first_retry_event`` is the first that showed a retry, ``first_above_event``
the first that showed a larger share than one of `LEVELS`. Signs are data here; whether one predicts
is for the report. Metrics: docs/metrics.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator, Capability
from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.cuda import runtime
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment, is_base
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.pressure import counters, oom
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.machine.emulated import is_emulated
from allocmark.schema import notes
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import pressure as metrics
from allocmark.workloads import catalog

_OOM_QUICK = (NATIVE,)
_OOM_FULL = (NATIVE, EXPANDABLE)
_OOM_ALL = (*_OOM_FULL, "torch-split64", "torch-roundup4", "torch-gc80")
"""The settings that torch's own message at an OOM has pointed to over the years. Those that go to
the driver often take long on a GPU (of ``torch-split64``'s 121 runs, 26 took 8 s), and the emulated
driver comes to the same bytes."""
_OOM_S, _OOM_PATIENT_S = 8.0, 120.0
_OOM_MORE_S = 22.0
"""What start-up and the last run may take besides."""
_COUNTERS_LIMIT_S = 30.0


class Pressure(AllocatorExperiment):
    """Counters in one child, runs towards an OOM in another."""

    name = metrics.EXPERIMENT
    order = 60

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        return bool(self.children(allocator, profile))

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        chosen: list[Mapping[str, Any]] = []
        if _shows_counters(allocator):
            chosen.append({"part": "counters"})
        if allocator.name in _oom(profile):
            ratios = oom.RATIOS if profile.all_settings else oom.QUICK_RATIOS
            chosen.append(
                {
                    "part": "towards-oom",
                    "workloads": list(catalog.names()),
                    "ratios": list(ratios),
                    "seconds": _OOM_PATIENT_S if profile.patient else _OOM_S,
                }
            )
        return chosen

    def limit_s(self, parameters: Mapping[str, Any]) -> float:
        if parameters["part"] == "counters":
            return _COUNTERS_LIMIT_S
        return float(parameters["seconds"]) + _OOM_MORE_S

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        if allocator.needs_limit:
            allocator.limit(runtime.memory_info()[0])
        recorder.note(notes.SETTING, setting_in_force(allocator))
        parameters = dict(request.parameters)
        if parameters.pop("part") == "counters":
            counters.measure_counters(allocator, request.device, recorder)
        else:
            oom.measure_towards_oom(allocator, request.device, recorder, **parameters)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        # Each child's gaps have its own reasons.
        return [figure for each in outcomes for figure in fill([each], _cells(each.request))]


def _shows_counters(allocator: Allocator) -> bool:
    return is_base(allocator) and Capability.CACHE in allocator.capabilities


def _oom(profile: Profile) -> tuple[str, ...]:
    if not profile.all_settings:
        return _OOM_QUICK
    return _OOM_ALL if is_emulated() or profile.patient else _OOM_FULL


def _cells(request: Request) -> Iterable[Cell]:
    parameters = request.parameters
    if parameters["part"] == "counters":
        return counters.cells()
    places = itertools.product(parameters["ratios"], parameters["workloads"])
    return [cell for ratio, workload in places for cell in oom.cells(workload, ratio)]


EXPERIMENT = Pressure()
