"""Several GPUs: what a program takes on each, stray contexts, and what peer access costs.

Document ``several_gpus``, subjects ``tf-greedy``, ``tf-growth``, ``tf-limit``, ``tf-async``,
``torch``, ``torch-expandable`` and ``runtime`` (plain cudart). GPUs are numbered as CUDA counts
those it sees, whichever one the run measures otherwise. On a machine with one GPU there is
``runtime`` alone, with that as the reason of each cell, and no process is started.

Each program is a process of its own. Of each there are, with its axes and ``gpu``:

| metric | unit | kind | meaning |
| --- | --- | --- | --- |
| ``<part>_bytes`` | bytes | sampled | more in use on that GPU since the start; axis ``meter`` too |
| ``<part>_context`` | count | exact | 1 where the process holds the primary context of that GPU |
| ``<part>_listed`` | count | exact | 1 where NVML lists the process on that GPU |

``<part>``, its axes, and what there is besides:

- ``mode`` (the modes; ``visible``: CUDA_VISIBLE_DEVICES leaves ``one`` or ``all``; ``point``:
  `several_gpus_modes.POINTS`): a tensor is 1 MiB. ``mode_share`` (share): bytes by nvml_device over
  the memory of that GPU. ``device_seconds``, ``first_tensor_seconds``, ``other_tensors_seconds``
  (s; ``visible``): devices listed and created; the tensor on GPU 0; one on each other GPU.
- ``touch`` (torch; ``touched``: how many GPUs have got a tensor): ``touch_seconds`` (s): the last
  of them.
- ``stray`` (torch; ``call``: `several_gpus_strays.STRAYS` and `REMEDY`): programs that work on
  GPU 1 only; what they take on GPU 0 is stray.
- ``peer`` (runtime; ``contexts``: which were there before, the start is after them; ``peers``):
  after cudaDeviceEnablePeerAccess to so many. ``can_access`` (count; ``gpu``, ``peer``): whether
  `gpu` can reach the memory of `peer`. ``malloc_ns``, ``free_ns`` (ns; ``peers``, ``bytes``):
  cudaMalloc and cudaFree on GPU 0 with access both ways between it and so many others.
- ``copy`` (torch, torch-expandable; ``copied_to``): a tensor of 20 MiB on each GPU, the start is
  after them; that of GPU 0 was copied to so many others. ``copy_seconds`` (s; ``peer``, ``copy``):
  the ``first`` copy to that GPU and the ``next``. ``miss_ns`` (ns; ``copied_to``, ``bytes``):
  torch.empty on GPU 0 with an empty cache. ``access_enabled`` (count; ``gpu``, ``peer``): whether
  torch has let `gpu` access the memory of `peer` by then.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import import_torch
from allocmark.cuda import runtime
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.multi_gpu.copies import copy_cells, measure_copies
from allocmark.experiments.multi_gpu.devices import Cards, Cell, cards
from allocmark.experiments.multi_gpu.modes import ALL, ONE, measure_mode, mode_cells
from allocmark.experiments.multi_gpu.peers import measure_peers, peer_cells
from allocmark.experiments.multi_gpu.stray_contexts import (
    REMEDY,
    STRAYS,
    measure_remedy,
    measure_strays,
    measure_touched,
    stray_cells,
    touched_cells,
)
from allocmark.experiments.shared.framework_programs import MODES, TensorFlow, environment_of
from allocmark.machine.frameworks import why_absent
from allocmark.machine.nvml import VISIBLE
from allocmark.machine.stack import BARE
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure
from allocmark.system.errors import NotMeasurableError

__all__ = ["EXPERIMENT", "SUBJECTS", "SeveralGpus"]

TORCH, EXPANDABLE, RUNTIME = "torch", "torch-expandable", "runtime"
SUBJECTS = (*MODES, TORCH, EXPANDABLE, RUNTIME)
MODE, TOUCHED, STRAY, ALONE, COPIED, PEERS = (
    *("mode", "touched", "strays", "remedy", "copies", "peers"),
)
_COLD_FULL = 3
_SAMPLES_FULL, _SAMPLES_QUICK = 30, 6
"""Six have an interval of the median."""
_LIMIT_S = 180.0
_FEWEST = 2


class SeveralGpus(Experiment):
    """One document for each subject; children hold no context, or are one program themselves."""

    name = "several_gpus"

    def __init__(self) -> None:
        self._program: TensorFlow | None = None

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return the subjects; no allocator that a user adds has a part in it."""
        return list(SUBJECTS) if len(cards()) >= _FEWEST else [RUNTIME]

    def framework(self, subject: str) -> str:
        if subject in MODES:
            return "tensorflow"
        return BARE if subject == RUNTIME else "torch"

    def requests(self, subject: str, profile: Profile) -> list[Request]:
        """Return the processes: none on one GPU.

        Raises `NotMeasurableError` where the framework is missing.
        """
        uuids = cards()
        if len(uuids) < _FEWEST:
            return []
        framework = self.framework(subject)
        if framework != BARE and (why := why_absent(framework)):
            raise NotMeasurableError(why)
        return [self._request(subject, asked, uuids) for asked in _parts(subject, profile)]

    def _request(self, subject: str, asked: Mapping[str, Any], uuids: Sequence[str]) -> Request:
        seen = {ONE: [0], ALONE: [1]}.get(asked.get("visible") or asked["part"])
        variables = dict(environment_of(subject)) if subject in MODES else {}
        if subject == EXPANDABLE:
            variables |= registry()[EXPANDABLE].environment
        if seen:
            variables[VISIBLE] = ",".join(uuids[gpu] for gpu in seen)
        parameters = {**asked, "uuids": list(uuids), "seen": seen or list(range(len(uuids)))}
        return Request(self.name, subject, _LIMIT_S, parameters, variables, self.framework(subject))

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        """Import; what follows in a fork must find the GPUs untouched."""
        match request.parameters["part"]:
            case "mode":
                self._program = TensorFlow(request.subject, 0)
                self._program.load()
            case "peers":
                runtime.library()
            case _:
                import_torch()
        return super().prepare(request)

    def measure(self, request: Request, recorder: Recorder) -> None:
        asked = request.parameters
        uuids, seen = asked["uuids"], asked["seen"]
        match asked["part"]:
            case "mode":
                assert self._program
                measure_mode(self._program, asked["visible"], Cards(uuids, seen), seen, recorder)
            case "touched":
                measure_touched(uuids, recorder)
            case "strays":
                measure_strays(uuids, recorder)
            case "remedy":
                measure_remedy(uuids, recorder)
            case "copies":
                measure_copies(uuids, asked["samples"], recorder)
            case "peers":
                measure_peers(uuids, asked["samples"], recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the figures: those of like processes joined, and a reason in each cell without."""
        if not outcomes:
            return _on_one_gpu() if len(cards()) < _FEWEST else []
        groups: dict[tuple[str, str], list[ChildOutcome]] = {}
        for outcome in outcomes:
            asked = outcome.request.parameters
            groups.setdefault((asked["part"], asked.get("visible", "")), []).append(outcome)
        figures: list[Figure] = []
        for group in groups.values():
            figures += _joined(fill(group, _cells_of(group[0].request.parameters)))
        return figures


def _parts(subject: str, profile: Profile) -> list[dict[str, Any]]:
    """Return the parameters of each process."""
    full = profile.all_settings
    if subject in MODES:
        count = _COLD_FULL if full else 1
        return [{"part": MODE, "visible": visible} for _ in range(count) for visible in (ONE, ALL)]
    samples = {"samples": _SAMPLES_FULL if full else _SAMPLES_QUICK}
    if subject == RUNTIME:
        return [{"part": PEERS, **samples}]
    copies: dict[str, Any] = {"part": COPIED, **samples}
    if subject == EXPANDABLE:
        return [copies]
    return [{"part": TOUCHED}, {"part": STRAY}, {"part": ALONE}, copies]


def _cells_of(asked: Mapping[str, Any]) -> Iterator[Cell]:
    gpus = len(asked["uuids"])
    match asked["part"]:
        case "mode":
            yield from mode_cells(asked["visible"], gpus)
        case "touched":
            yield from touched_cells(gpus)
        case "strays":
            for name in STRAYS:
                yield from stray_cells(name, gpus)
        case "remedy":
            yield from stray_cells(REMEDY, gpus)
        case "copies":
            yield from copy_cells(gpus)
        case "peers":
            yield from peer_cells(gpus)


def _on_one_gpu() -> list[Figure]:
    """Return what two GPUs would have shown, with the reason why there is nothing."""
    setting = os.environ.get(VISIBLE)
    why = "this machine has one GPU" if setting is None else f"{VISIBLE}={setting} leaves one GPU"
    return [
        Figure(metric, unit, "exact", "none", axes, reason=why)
        for axes, metrics in peer_cells(_FEWEST)
        for metric, unit in metrics.items()
    ]


def _joined(figures: Sequence[Figure]) -> list[Figure]:
    """Join the figures of one cell from like processes."""
    groups: dict[tuple[str, tuple[tuple[str, Axis], ...]], list[Figure]] = {}
    for figure in figures:
        groups.setdefault((figure.metric, tuple(sorted(figure.axes.items()))), []).append(figure)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: Sequence[Figure]) -> Figure:
    told = [figure for figure in group if figure.value is not None]
    if len(group) == 1 or not told:
        return group[0]
    one = told[0]
    samples = [figure.value for figure in told if figure.value is not None]
    if one.kind == "exact" and len(set(samples)) == 1:
        return one
    return sampled_figure(one.metric, one.unit, one.kind, one.meter, one.axes, samples)


EXPERIMENT = SeveralGpus()
