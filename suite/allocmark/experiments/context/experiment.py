"""What a CUDA context costs, which calls create one, what its size depends on, how they add up.

Document ``context``, subject = who creates the context: ``driver`` (the bare driver API),
``runtime`` (libcudart), ``torch``, ``cupy``, ``jax``. Four parts, each in processes of its own.

**Cold** (all subjects): fresh processes, at least ten for each module loading in full, six in
quick (fewer have no interval), the two kinds of loading in turns. In quick only ``driver`` and
``torch``, the latter LAZY only. Axes ``{stage, module_loading}``, and ``meter`` for bytes.

- ``module_loading``: ``LAZY`` or ``EAGER`` (CUDA_MODULE_LOADING);
- ``stage``, in this order, see `subjects` for the exact calls: ``import`` (the framework,
  or the library, is loaded), ``init`` (CUDA is initialised), ``context``, ``first tensor``
  (1 MiB), ``first kernel`` (``first memset`` for ``runtime``, which brings no kernel),
  ``first matrix product``;
- ``meter``: ``nvml_process``, ``nvml_device``, ``mem_get_info`` (`allocmark.meters.memory`), the
  same name as in `Figure.meter`. They never agree to the byte: what they disagree by is the
  difference between figures that differ in nothing else.

| metric | unit | axes | meaning |
| --- | --- | --- | --- |
| ``stage_seconds`` | s | stage, module_loading | wall time of that stage until the GPU has finished it; kind ``time`` |
| ``stage_bytes`` | bytes | stage, module_loading, meter | device memory that the stage added, the tensor and its pool's segment among it |
| ``total_bytes`` | bytes | stage, module_loading, meter | the same since before ``import``; not by ``mem_get_info``, which cannot be asked before |

**Triggers** (``driver``, ``runtime``, ``torch``; full only): each call in a fresh (forked) process
that has no context yet. Axis ``call``: `context_triggers.CALLS`.

| metric | unit | axes | meaning |
| --- | --- | --- | --- |
| ``context_created`` | count | call | 1 where this process holds the primary context afterwards, else 0; exact; flag ``call-failed`` |
| ``call_bytes`` | bytes | call, meter | what ``nvml_device`` shows more after the call |

**Cause** (``driver``; full only).

| metric | unit | axes | meaning |
| --- | --- | --- | --- |
| ``limited_context_bytes`` | bytes | limit, limit_bytes, meter | context, a kernel launched in it, under a device limit: ``stack`` (bytes a thread), ``heap``, ``printf``; row ``default`` with limit_bytes 0 is the untouched one |
| ``live_bytes`` | bytes | bytes, count, meter | what ``count`` live cuMemAlloc allocations of ``bytes`` each add: less count x bytes it is what managing and rounding them costs |

**Processes** (``driver``, ``torch``; full only): idle contexts side by side.

| metric | unit | axes | meaning |
| --- | --- | --- | --- |
| ``processes_bytes`` | bytes | processes, meter | what so many hold together |
| ``process_bytes`` | bytes | processes, meter | what each holds: ``nvml_process`` one sample for each process, ``nvml_device`` what each added as it came, ``mem_get_info`` the same as the first process saw it |

All byte figures are of kind ``sampled``. Notes: ``<call> failed`` (the error's text),
``default stack bytes`` and the like (limits in force before they were changed).
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.experiments.context.cause import cause_cells, measure_cause
from allocmark.experiments.context.processes import Workers, measure_processes, process_cells
from allocmark.experiments.context.stages import cells, measure_stages
from allocmark.experiments.context.subjects import SUBJECTS, Subject, subject_of
from allocmark.experiments.context.triggers import CALLS, measure_triggers
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.machine.stack import BARE, installed, lacks_cuda
from allocmark.meters.memory import CONTEXT_STATE, MemoryMeters
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.system.errors import NotMeasurableError

__all__ = ["EXPERIMENT", "Context"]

LOADINGS = ("LAZY", "EAGER")
_COLD_LIMIT_S, _LIMIT_S = 60.0, 120.0
_QUICK_SUBJECTS = ("driver", "torch")
"""EAGER loading of cuBLAS takes the others seconds in each process."""
_NOT_QUICK = "left out of the quick profile: it takes seconds for each process"
_UNFINISHED = "the probe ended before it came to this"

Cell = tuple[str, str, str, dict[str, Axis]]


class Context(Experiment):
    """One document for each subject; one request for each fresh process of the cold part."""

    name = "context"

    def __init__(self) -> None:
        self._subject: Subject | None = None
        self._import_seconds = 0.0
        self._meters: MemoryMeters | None = None
        self._workers: Workers | None = None

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return who creates a context; no allocator has a part in it."""
        return list(SUBJECTS) if profile.all_settings else list(_QUICK_SUBJECTS)

    def framework(self, subject: str) -> str:
        return subject_of(subject).framework

    def requests(self, subject: str, profile: Profile) -> list[Request]:
        """Return the cold processes, the kinds of loading in turns, and one for each other part.

        Raises `NotMeasurableError` where the subject's framework is missing or without CUDA.
        """
        chosen = subject_of(subject)
        _refuse_missing(chosen)
        full = profile.name == _FULL
        count = profile.cold_processes
        loadings = LOADINGS if full or subject != "torch" else LOADINGS[:1]
        asked = [("cold", loading, _COLD_LIMIT_S) for _ in range(count) for loading in loadings]
        if full:
            asked += [(part, "LAZY", _LIMIT_S) for part in PARTS[subject]]
        return [
            Request(
                self.name,
                subject,
                limit_s,
                {"part": part, "module_loading": loading, "profile": profile.name},
                {**chosen.environment, "CUDA_MODULE_LOADING": loading},
                chosen.framework,
            )
            for part, loading, limit_s in asked
        ]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        begin = time.perf_counter()
        if request.parameters["part"] == "processes":
            self._workers = Workers(request.subject, request.device)
            return super().prepare(request)
        self._subject = subject_of(request.subject)
        self._subject.load()
        self._import_seconds = time.perf_counter() - begin
        if request.parameters["part"] == "cold":
            # NVML creates no context, and a hundred processes need not wait for it.
            self._meters = MemoryMeters(request.device)
        return super().prepare(request)

    def measure(self, request: Request, recorder: Recorder) -> None:
        device = request.device
        match request.parameters["part"]:
            case "cold":
                assert self._subject and self._meters
                loading = request.parameters["module_loading"]
                imported = self._import_seconds
                measure_stages(self._subject, loading, self._meters, device, imported, recorder)
            case "triggers":
                measure_triggers(request.subject, device, recorder)
            case "cause":
                measure_cause(device, recorder)
            case "processes":
                assert self._workers
                measure_processes(self._workers, device, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return one figure for each cell: the samples of all processes, or the reason."""
        figures = _joined(figure for outcome in outcomes for figure in outcome.figures)
        have = {_place(figure.metric, figure.meter, figure.axes) for figure in figures}
        for part, loading, (metric, unit, meter, axes) in _expected(outcomes):
            if _place(metric, meter, axes) not in have:
                reason = _why(outcomes, part, loading)
                figures.append(Figure(metric, unit, "sampled", meter, axes, reason=reason))
        return figures


_FULL = "full"
PARTS: Mapping[str, Sequence[str]] = {
    "driver": ("triggers", "cause", "processes"),
    "runtime": ("triggers",),
    "torch": ("triggers", "processes"),
    "cupy": (),
    "jax": (),
}
"""What is measured of a subject besides the cold stages, in full."""


def _refuse_missing(subject: Subject) -> None:
    if subject.framework == BARE:
        return
    found = installed(subject.framework)
    if not found[subject.framework]:
        raise NotMeasurableError(f"{subject.framework} is not installed here")
    if lacks_cuda(subject.framework, found):
        raise NotMeasurableError(f"{subject.framework} is installed here without CUDA")


def _expected(outcomes: Sequence[ChildOutcome]) -> Iterator[tuple[str, str, Cell]]:
    """Return part, loading and place of every cell that the subject should have."""
    if not outcomes:
        return
    subject = outcomes[0].request.subject
    for loading in LOADINGS:
        for cell in cells(loading):
            yield "cold", loading, cell
    for part in PARTS[subject]:
        for cell in _cells_of(part, subject):
            yield part, "LAZY", cell


def _cells_of(part: str, subject: str) -> Iterator[Cell]:
    match part:
        case "triggers":
            for call in CALLS[subject]:
                yield "context_created", "count", CONTEXT_STATE, {"call": call}
        case "cause":
            yield from cause_cells()
        case "processes":
            yield from process_cells()


def _why(outcomes: Sequence[ChildOutcome], part: str, loading: str) -> str:
    """Return why a cell has no figure: the last failure of the processes that should have it."""
    asked = [
        outcome
        for outcome in outcomes
        if outcome.request.parameters["part"] == part
        and outcome.request.parameters["module_loading"] == loading
    ]
    if not asked:
        return _NOT_QUICK
    reasons = [failure.reason for outcome in asked for failure in outcome.failures]
    return reasons[-1] if reasons else _UNFINISHED


def _joined(figures: Iterable[Figure]) -> list[Figure]:
    """Join the figures of one cell from many processes into the figure of their readings."""
    groups: dict[tuple[Any, ...], list[Figure]] = {}
    for figure in figures:
        groups.setdefault(_place(figure.metric, figure.meter, figure.axes), []).append(figure)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: Sequence[Figure]) -> Figure:
    first = group[0]
    if len(group) == 1 and (first.samples or first.kind == "exact"):
        return first
    told = [figure for figure in group if figure.value is not None]
    if not told:
        return first
    samples = [figure.value for figure in told if figure.value is not None]
    one = told[0]
    return sampled_figure(one.metric, one.unit, one.kind, one.meter, one.axes, samples)


def _place(metric: str, meter: str, axes: Mapping[str, Axis]) -> tuple[Any, ...]:
    return (metric, meter, tuple(sorted(axes.items())))


EXPERIMENT = Context()
