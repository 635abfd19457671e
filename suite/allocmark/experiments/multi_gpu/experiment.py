"""Several GPUs: what a program takes on each, stray contexts, and what peer access costs.

Document ``several_gpus``, subjects ``tf-greedy``, ``tf-growth``, ``tf-limit``, ``tf-async``,
``torch``, ``torch-expandable`` and ``runtime`` (plain cudart). GPUs are numbered as CUDA counts
those it sees, whichever one the run measures otherwise. On a machine with one GPU there is
``runtime`` alone, with that as the reason of each cell, and no process is started. Each program is
a process of its own. Metrics: docs/metrics.md.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import MODES
from allocmark.allocators.torch_caching import EXPANDABLE
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import empty_cells
from allocmark.experiments.core.parts import ExperimentOfParts
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.multi_gpu.copies import Copies
from allocmark.experiments.multi_gpu.devices import visible_uuids
from allocmark.experiments.multi_gpu.modes import Mode
from allocmark.experiments.multi_gpu.peers import Peers, peer_cells
from allocmark.experiments.multi_gpu.stray_contexts import Remedy, StrayContexts, Touched
from allocmark.machine.frameworks import why_absent
from allocmark.machine.nvml import VISIBLE
from allocmark.machine.stack import BARE
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.system.errors import NotMeasurableError

TORCH, RUNTIME = "torch", "runtime"
SUBJECTS = (*MODES, TORCH, EXPANDABLE, RUNTIME)
_COLD_FULL = 3
_SAMPLES_FULL, _SAMPLES_QUICK = 30, 6
"""Six have an interval of the median."""
_FEWEST = 2


class MultiGpu(ExperimentOfParts):
    """One document for each subject; children hold no context, or are one program themselves."""

    name = metrics.EXPERIMENT
    order = 90
    parts = (Mode, Touched, StrayContexts, Remedy, Copies, Peers)

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return the subjects; no allocator that a user adds has a part in it."""
        return list(SUBJECTS) if len(visible_uuids()) >= _FEWEST else [RUNTIME]

    def framework(self, subject: str, allocators: Sequence[Allocator]) -> str:
        if subject in MODES:
            return "tensorflow"
        return BARE if subject == RUNTIME else "torch"

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        """Return the processes: none on one GPU.

        Raises `NotMeasurableError` where the framework is missing.
        """
        uuids = visible_uuids()
        if len(uuids) < _FEWEST:
            return []
        framework = self.framework(subject, allocators)
        if framework != BARE and (why := why_absent(framework)):
            raise NotMeasurableError(why)
        return [
            self.request(subject, {**parameters, "uuids": uuids})
            for parameters in _parameters(subject, profile)
        ]

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        if not outcomes and len(visible_uuids()) < _FEWEST:
            return _on_one_gpu()
        return super().combine(outcomes)


def _parameters(subject: str, profile: Profile) -> list[dict[str, Any]]:
    """Return the parameters of each process."""
    full = profile.all_settings
    if subject in MODES:
        both = [{"part": Mode.name, "visible": visible} for visible in metrics.VISIBLE]
        return both * (_COLD_FULL if full else 1)
    samples = {"samples": _SAMPLES_FULL if full else _SAMPLES_QUICK}
    if subject == RUNTIME:
        return [{"part": Peers.name, **samples}]
    copies = {"part": Copies.name, **samples}
    if subject == EXPANDABLE:
        return [copies]
    return [{"part": part.name} for part in (Touched, StrayContexts, Remedy)] + [copies]


def _on_one_gpu() -> list[Figure]:
    """Return what two GPUs would have shown, with the reason why there is nothing."""
    setting = os.environ.get(VISIBLE)
    why = "this machine has one GPU" if setting is None else f"{VISIBLE}={setting} leaves one GPU"
    return empty_cells(peer_cells(_FEWEST), why)


EXPERIMENT = MultiGpu()
