"""What TensorFlow's modes take, when, and what they give back, beside PyTorch.

Document ``tensorflow_policy``, subject = ``tf-greedy``, ``tf-growth``, ``tf-limit``, ``tf-async`` or
``torch`` (the same points of the same program). A mode is set as its documentation sets it
(`tensorflow_policy_programs`). The set of tensors is 2.4 GiB and the limit 4096 MiB, on a card below
16 GiB half as much, and so on. Quick: cold and points only. Processes see all GPUs, as a user's do:
bytes are those of the measured one, times include the contexts that TensorFlow makes on the others.

| metric | unit | axes | meaning |
| --- | --- | --- | --- |
| ``device_seconds``, ``first_tensor_seconds`` | s | | fresh processes, the framework imported before: devices listed and created, on every GPU; then a tensor of 1 MiB |
| ``held_bytes`` | bytes | point, meter | device memory beyond ``imported`` (`tensorflow_policy_points.POINTS`) |
| ``since_device_bytes`` | bytes | point, meter | device memory beyond ``device created``: without the context |
| ``taken_share`` | share | point | held_bytes by nvml_device over the card's memory |
| ``returned_bytes`` | bytes | after, meter | what the device has back of the live peak (`AFTER`) |
| ``counter_bytes`` | bytes | point, counter | the framework's counters: ``allocated``, ``peak allocated``, ``reserved`` |
| ``host_bytes`` | bytes | point | resident memory of the process |
| ``other_gpus_bytes`` | bytes | point | device memory taken on all other GPUs together |
| ``live_bytes`` | bytes | | the set, without the first tensor |
| ``modes_agree`` | count | way | 1 where the other way to set the mode takes the same by nvml_device at ``COMPARED`` |
| ``steps``, ``largest_step_bytes``, ``beyond_need_bytes`` | count, bytes | | tensors of 1 MiB add up to the set: how often more was taken, the most at once, and the most held beyond live tensors; by mem_get_info |
| ``step_bytes`` | bytes | step | the first 16 of those steps; series ``steps`` has all: ``live_bytes``, ``taken_bytes`` |
| ``past_limit_failed``, ``past_limit_seconds`` | count, s | retry | one tensor larger than the limit, or the card; ``off``: disallow_retry_on_allocation_failure |
| ``setting_refused`` | count | setting | 1 where it raises: after the start; limit and growth together (``tf-limit``) |
| ``combined_first_tensor_bytes`` | bytes | setting | what the first tensor then takes (``tf-limit``) |
| ``limit_bytes``, ``above_limit_bytes`` | bytes | why, meter | held at the live peak beyond the limit: ``all`` = ``context`` + ``rest`` (``tf-limit``) |
| ``virtual_bytes`` | bytes | devices, meter | logical devices of half and a quarter of the limit: what each one's first tensor takes (``tf-limit``) |
| ``pair_failed``, ``pair_seconds`` | count, s | second | this subject holds its set, then ``second`` starts: whether it failed, and how long it took |
| ``pair_live_bytes`` | bytes | second, process | tensors that each has got |
| ``pair_bytes`` | bytes | second, process, meter | what the first holds before, and what the second adds |
| ``shared_bytes`` | bytes | | two of this subject: by how much the second adds less than the first, by nvml_process where it tells |
| ``ipc_exported``, ``ipc_opened``, ``ipc_added_bytes`` | count, bytes | way | ``cuIpcGetMemHandle`` on a tensor's address, or the ``framework``'s own way; what opening adds |

Kind ``exact`` for what was raised or asked, ``time`` for seconds, ``sampled`` for what meters show.
Notes hold the class and first line of every error, by what was done.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu.framework import QUIET
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.framework_programs import (
    LIMIT,
    MODES,
    OTHER_WAYS,
    SUBJECTS,
    Program,
    TensorFlow,
    environment_of,
    framework_of,
    program_of,
)
from allocmark.experiments.tensorflow_policy.limits import (
    COMBINATIONS,
    above_cells,
    combined_cells,
    measure_combined,
    measure_virtual,
    send_above_limit,
    virtual_cells,
)
from allocmark.experiments.tensorflow_policy.pairs import (
    Pairs,
    measure_pairs,
    pair_cells,
    sharing_cells,
)
from allocmark.experiments.tensorflow_policy.points import card_bytes, measure_points
from allocmark.experiments.tensorflow_policy.points import cells as point_cells
from allocmark.experiments.tensorflow_policy.steps import (
    cold_cells,
    measure_cold,
    measure_steps,
    measure_without_retry,
    retry_cells,
    step_cells,
)
from allocmark.experiments.tensorflow_policy.worker import Worker
from allocmark.machine.frameworks import why_absent
from allocmark.machine.stack import installed, lacks_cuda
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.system.errors import NotMeasurableError

__all__ = ["EXPERIMENT", "TensorFlowPolicy"]

COLD, WALKED, STEPS, NO_RETRY, VIRTUAL, COMBINED, PAIRED = (
    *("cold", "points", "steps", "no retry", "virtual", "combined", "pairs"),
)
_COLD_FULL, _COLD_QUICK = 6, 3
"""Six have an interval of the median; a process takes seconds, and most of them to import."""
_LIMIT_S, _PAIRS_LIMIT_S = 60.0, 180.0


class TensorFlowPolicy(Experiment):
    """One document for each mode and for torch; every part in processes of its own."""

    name = "tensorflow_policy"

    def __init__(self) -> None:
        self._program: Program | None = None
        self._workers: list[Worker] = []
        self._pairs: Pairs | None = None

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return the modes and torch; no allocator of the suite's has a part in it.

        Torch is measured here only where there is TensorFlow to set it against.
        """
        alone = why_absent("tensorflow") is not None
        return [s for s in SUBJECTS if not (alone and framework_of(s) == "torch")]

    def framework(self, subject: str) -> str:
        return framework_of(subject)

    def requests(self, subject: str, profile: Profile) -> list[Request]:
        """Return the processes. Raises `NotMeasurableError` where the framework is missing."""
        _refuse_missing(framework_of(subject))
        return [self._request(subject, asked) for asked in _parts(subject, profile)]

    def _request(self, subject: str, asked: Mapping[str, Any]) -> Request:
        # Without retry a session's options set the mode, all of it.
        variables = dict(QUIET if asked["part"] == NO_RETRY else environment_of(subject))
        if asked["part"] == COMBINED:
            variables |= COMBINATIONS[asked["setting"]]
        limit_s = _PAIRS_LIMIT_S if asked["part"] == PAIRED else _LIMIT_S
        return Request(self.name, subject, limit_s, asked, variables, framework_of(subject))

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        subject, device, asked = request.subject, request.device, request.parameters
        match asked["part"]:
            case "points":
                card = card_bytes(device)
                ways = [way for way in ("", asked["way"]) if way is not None]
                self._workers = [Worker(subject, device, card, way) for way in ways]
            case "pairs":
                self._pairs = Pairs(subject, asked["seconds"], device)
            case _:
                self._program = program_of(subject, device)
                self._program.load()
        return super().prepare(request)

    def measure(self, request: Request, recorder: Recorder) -> None:
        device, asked = request.device, request.parameters
        card, program = card_bytes(device), self._program
        match asked["part"]:
            case "points":
                self._measure_points(request, card, recorder)
            case "pairs":
                assert self._pairs
                measure_pairs(self._pairs, device, recorder)
            case "cold":
                assert program
                measure_cold(program, card, recorder)
            case "steps":
                assert program
                measure_steps(program, device, card, recorder)
            case "no retry":
                assert program
                measure_without_retry(program, card, recorder)
            case "virtual":
                assert isinstance(program, TensorFlow)
                measure_virtual(program, device, card, recorder)
            case "combined":
                assert isinstance(program, TensorFlow)
                measure_combined(program, asked["setting"], device, card, recorder)

    def _measure_points(self, request: Request, card: int, recorder: Recorder) -> None:
        worker, *others = self._workers
        quick = request.parameters["quick"]
        try:
            other = others[0] if others else None
            readings = measure_points(worker, other, request.device, quick, recorder)
        finally:
            for one in self._workers:
                one.close()
        if request.subject == LIMIT:
            send_above_limit(readings, card, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the figures: cold ones joined, and for each cell without one the reason."""
        cold = [one for one in outcomes if one.request.parameters["part"] == COLD]
        rest = [one for one in outcomes if one.request.parameters["part"] != COLD]
        figures = _joined(fill(cold, cold_cells()) if cold else [])
        for outcome in rest:
            figures += fill([outcome], _cells_of(outcome.request))
        return figures


def _parts(subject: str, profile: Profile) -> list[dict[str, Any]]:
    """Return the parameters of each process."""
    full = profile.all_settings
    asked: list[dict[str, Any]] = [{"part": COLD}] * (_COLD_FULL if full else _COLD_QUICK)
    way = OTHER_WAYS.get(subject) if full else None
    asked.append({"part": WALKED, "way": way, "quick": not full})
    if not full:
        return asked
    asked.append({"part": STEPS})
    if subject in MODES:
        asked.append({"part": NO_RETRY})
    if subject == LIMIT:
        asked.append({"part": VIRTUAL})
        asked += [{"part": COMBINED, "setting": setting} for setting in COMBINATIONS]
    asked.append({"part": PAIRED, "seconds": list(SUBJECTS)})
    return asked


def _cells_of(request: Request) -> Iterator[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    subject, asked = request.subject, request.parameters
    match asked["part"]:
        case "points":
            yield from point_cells()
            if asked["way"]:
                yield {"way": asked["way"]}, {"modes_agree": "count"}
            if subject == LIMIT:
                yield from above_cells()
        case "steps":
            yield from step_cells(late=subject in MODES)
        case "no retry":
            yield from retry_cells()
        case "virtual":
            yield from virtual_cells()
        case "combined":
            yield from combined_cells(asked["setting"])
        case "pairs":
            yield from pair_cells(asked["seconds"])
            yield from sharing_cells()


def _joined(figures: Sequence[Figure]) -> list[Figure]:
    """Return one figure for each metric of the cold processes."""
    groups: dict[str, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(figure.metric, []).append(figure)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: Sequence[Figure]) -> Figure:
    told = [figure.value for figure in group if figure.value is not None]
    one = group[0]
    if not told:
        return one
    return sampled_figure(one.metric, one.unit, "time", one.meter, {}, told)


def _refuse_missing(framework: str) -> None:
    found = installed(framework)
    if not found.get(framework):
        raise NotMeasurableError(f"{framework} is not installed here")
    if lacks_cuda(framework, found):
        raise NotMeasurableError(f"{framework} is installed here without CUDA")


EXPERIMENT = TensorFlowPolicy()
