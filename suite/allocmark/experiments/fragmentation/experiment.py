"""What fragmentation costs: every workload over every allocator, the whole vector of measures.

One child for each allocator runs all workloads, seeded and recorded, from a clean state each. A
mode for which that takes seconds (``tf-greedy``) runs only the recorded ones on a GPU.
Document ``fragmentation``, subject = allocator, axes ``{workload}``; the metrics are in
docs/metrics.md.

Exact metrics are ``sampled`` for allocators that do not repeat to the byte, and for workloads that
record streams (what is free then depends on how far the GPU is). Full runs take three samples where
they are cheap, and a cell declared exact whose samples differ is flagged ``does-not-repeat`` and
has the first of them as its value, as the curve does.

Series ``memory``, axes ``{workload}``: ``event``, ``requested``, ``allocated``, ``reserved`` in
bytes at about 300 events; a column the allocator does not tell is left out. Series ``every-event``
(full runs, workloads that record no streams, allocators that keep counters; of settings on a GPU
where they are requested by name): the counters after every event (see `events`), left out
where a run takes over `_EVERY_EVENT_SECONDS`. Series ``driver-requests`` (allocators that tell):
``bytes`` of each request to the driver in order, 0 refused, below 0 given back, and the ``address``
it got or gave back, from the lowest of them. Note ``setting``: the allocator's setting as the
framework tells it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator, Capability, Tier
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment, is_base
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import empty_cells, fill
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.fragmentation.events import every_event, keeps_counters
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.experiments.shared.event_replay import Script, open_streams, restart
from allocmark.experiments.shared.fragmentation_vector import (
    Vector,
    figures,
    repeats_exactly,
    run_once,
)
from allocmark.machine.emulated import is_emulated
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import fragmentation as metrics
from allocmark.schema.notes import SETTING
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads import catalog

_REPEATS = 3
_REPEAT_SECONDS = 0.3
"""Exact cells are repeated only while the runs of a workload have taken no longer."""
_EVERY_EVENT_SECONDS = 1.5
_LIMIT_S = 150.0
_SLOW = (
    "left out: on a GPU it takes seconds to start anew for each workload, "
    "and the emulated driver gives it the same bytes"
)


class Fragmentation(AllocatorExperiment):
    """All workloads over one allocator in one process."""

    name = metrics.EXPERIMENT
    order = 30

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        wanted = profile.all_settings or is_base(allocator)
        return wanted and not allocator.needs_limit

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        # Without a way back to the clean state, each workload needs a process of its own.
        together = Capability.RESTART in allocator.capabilities
        slow = allocator.slow_restart and not is_emulated()
        names = catalog.recorded_names() if slow else catalog.names()
        # A setting's times are read beside its base allocator's, its bytes repeat as those do.
        own = allocator.tier is not Tier.SETTING
        repeats = _REPEATS if profile.all_settings and own else 1
        # Half of what a setting takes on a GPU: there, a run of everything leaves them out.
        every_event = profile.all_settings and (own or profile.patient or is_emulated())
        return [
            {"workloads": chosen, "repeats": repeats, "every_event": every_event}
            for chosen in ([names] if together else [[name] for name in names])
        ]

    def limit_s(self, parameters: Mapping[str, Any]) -> float:
        return _LIMIT_S

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        recorder.note(SETTING, setting_in_force(allocator))
        for workload in request.parameters["workloads"]:
            with recorder.stage(workload):
                _measure_workload(workload, allocator, request, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        run = [name for o in outcomes for name in o.request.parameters["workloads"]]
        left_out = [name for name in catalog.names() if outcomes and name not in run]
        figures = fill(outcomes, [_cell(workload) for workload in run])
        return figures + empty_cells(map(_cell, left_out), _SLOW)


def _cell(workload: str) -> Cell:
    return {"workload": workload}, metrics.VECTOR


def _measure_workload(
    workload: str, allocator: Allocator, request: Request, recorder: Recorder
) -> None:
    script = Script.of(catalog.load(workload))
    try:
        reason = script.cannot_run(allocator)
        if reason is not None:
            raise NotMeasurableError(reason)
        open_streams(script, allocator)
        runs: list[Vector] = []
        begin = time.monotonic()
        exact = repeats_exactly(script, allocator)
        while len(runs) < request.parameters["repeats"]:
            if exact and runs and time.monotonic() - begin > _REPEAT_SECONDS:
                break
            restart(allocator)
            runs.append(run_once(script, allocator))
        run_seconds = (time.monotonic() - begin) / len(runs)
    except Exception as error:
        recorder.unfilled([_cell(workload)], in_words(error))
        raise
    for figure in figures(runs, script, allocator, workload):
        recorder.figure(figure)
    recorder.series(metrics.MEMORY, {"workload": workload}, **runs[0].curve)
    _send_requests(workload, allocator, recorder)
    cheap = run_seconds < _EVERY_EVENT_SECONDS
    wanted = request.parameters["every_event"] and cheap and not script.records_streams
    if wanted and Capability.RESTART in allocator.capabilities and keeps_counters(allocator):
        with recorder.stage(f"{workload}, every event"):
            restart(allocator)
            for counter, columns in every_event(script, allocator).items():
                place = {"workload": workload, "counter": counter}
                recorder.series(metrics.EVERY_EVENT, {**place, "events": len(script)}, **columns)


def _send_requests(workload: str, allocator: Allocator, recorder: Recorder) -> None:
    requests = allocator.driver_requests()
    if requests:
        lowest = min((address for _, address in requests if address), default=0)
        recorder.series(
            metrics.DRIVER_REQUESTS,
            {"workload": workload},
            bytes=[size for size, _ in requests],
            address=[address - lowest if address else 0 for _, address in requests],
        )


EXPERIMENT = Fragmentation()
