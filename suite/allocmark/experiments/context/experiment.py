"""What a CUDA context costs, which calls create one, what its size depends on, how they add up.

Document ``context``, subject = who creates the context: ``driver`` (the bare driver API),
``runtime`` (libcudart), ``torch``, ``cupy``, ``jax``. Four parts, each in processes of its own; the
metrics are in docs/metrics.md.

**Cold** (all subjects): fresh processes, the two kinds of loading in turns: for each in full at
least ten of ``driver`` and ``torch``, six of the others, and six in quick (fewer have no interval).
In quick only ``driver`` and ``torch``, the latter LAZY only. The exact calls of each stage are in
`subjects`. The meters never agree to the byte: what they disagree by is the difference between
figures that differ in nothing but the axis ``meter``.

**Triggers** (``driver``, ``runtime``, ``torch``; full only): each call of `triggers.CALLS` in a
fresh (forked) process that has no context yet.

**Cause** (``driver``; full only): device limits, and many live allocations: ``live_bytes`` less
count x bytes is what managing and rounding them costs.

**Processes** (``driver``, ``torch``; full only): idle contexts side by side. ``process_bytes`` by
``nvml_process`` has one sample for each process, by ``nvml_device`` what each added as it came, by
``mem_get_info`` the same as the first process saw it.

Notes: ``<call> failed`` (the error's text), ``default stack bytes`` and the like (limits in force
before they were changed).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from allocmark.allocators.base import Allocator
from allocmark.experiments.context import cause, processes, stages, triggers
from allocmark.experiments.context.subjects import SUBJECTS, subject_of
from allocmark.experiments.core.experiment import Experiment, Profile, refuse_missing
from allocmark.experiments.core.outcomes import UNFINISHED, cell_of, joined
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import context as metrics

COLD = "cold"
_COLD_LIMIT_S, _LIMIT_S = 60.0, 120.0
_FULL = "full"
_MAIN = (metrics.DRIVER, metrics.TORCH)
"""All that a quick run measures: EAGER loading of cuBLAS takes the others seconds each time."""
_FEWEST_COLD = 6
"""Processes of the others in a full run: fewer samples have no interval."""
_NOT_QUICK = "left out of the quick profile: it takes seconds for each process"


class _Part(Protocol):
    """What a module of this folder has that measures one part."""

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        """See `Experiment.prepare`."""

    def cells(self, subject: str) -> Iterable[tuple[Metric, str, Mapping[str, Axis]]]:
        """Return metric, meter and axes of all that is measured of a subject."""


_PARTS: Mapping[str, _Part] = {
    COLD: stages,
    "triggers": triggers,
    "cause": cause,
    "processes": processes,
}
PARTS_OF: Mapping[str, Sequence[str]] = {
    metrics.DRIVER: ("triggers", "cause", "processes"),
    "runtime": ("triggers",),
    metrics.TORCH: ("triggers", "processes"),
    "cupy": (),
    "jax": (),
}
"""What is measured of a subject besides the cold stages, in full."""


class Context(Experiment):
    """One document for each subject; one request for each fresh process of the cold part."""

    name = metrics.EXPERIMENT
    order = 10

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return who creates a context; no allocator has a part in it."""
        return list(SUBJECTS) if profile.all_settings else list(_MAIN)

    def framework(self, subject: str, allocators: Sequence[Allocator]) -> str:
        return subject_of(subject).framework

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        """Return the cold processes, the kinds of loading in turns, and one for each other part."""
        chosen = subject_of(subject)
        refuse_missing(chosen.framework)
        full = profile.name == _FULL
        loadings = metrics.LOADINGS if full or subject != "torch" else (metrics.LAZY,)
        processes = [(COLD, loading, _COLD_LIMIT_S) for loading in loadings]
        processes *= profile.cold_processes if subject in _MAIN else _FEWEST_COLD
        if full:
            processes += [(part, metrics.LAZY, _LIMIT_S) for part in PARTS_OF[subject]]
        return [
            Request(
                experiment=self.name,
                subject=subject,
                limit_s=limit_s,
                parameters={"part": part, "module_loading": loading, "profile": profile.name},
                environment={**chosen.environment, "CUDA_MODULE_LOADING": loading},
                framework=chosen.framework,
            )
            for part, loading, limit_s in processes
        ]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        return _PARTS[request.parameters["part"]].prepare(request)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return one figure for each cell: the samples of all processes, or the reason."""
        figures = joined(figure for outcome in outcomes for figure in outcome.figures)
        have = {cell_of(figure.metric, figure.axes) for figure in figures}
        for part, metric, meter, axes in _expected(outcomes):
            if cell_of(metric.name, axes) not in have:
                why = _why(outcomes, part, axes.get("module_loading", metrics.LAZY))
                figures.append(metric.missing(why, axes, meter, kind="sampled"))
        return figures


def _expected(
    outcomes: Sequence[ChildOutcome],
) -> Iterator[tuple[str, Metric, str, Mapping[str, Axis]]]:
    """Return part, metric, meter and axes of every cell that the subject should have."""
    for subject in {outcome.request.subject for outcome in outcomes}:
        for part in (COLD, *PARTS_OF[subject]):
            for metric, meter, axes in _PARTS[part].cells(subject):
                yield part, metric, meter, axes


def _why(outcomes: Sequence[ChildOutcome], part: str, loading: Axis) -> str:
    """Return why a cell has no figure: the last failure of the processes that should have it."""
    started = [
        outcome
        for outcome in outcomes
        if outcome.request.parameters["part"] == part
        and outcome.request.parameters["module_loading"] == loading
    ]
    if not started:
        return _NOT_QUICK
    reasons = [failure.reason for outcome in started for failure in outcome.failures]
    return reasons[-1] if reasons else UNFINISHED


EXPERIMENT = Context()
