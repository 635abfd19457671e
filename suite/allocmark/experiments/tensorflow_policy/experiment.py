"""What TensorFlow's modes take, when, and what they give back, beside PyTorch.

Document ``tensorflow_policy``, subjects: the modes (``tf-greedy`` …) and ``torch``, the same points
of the same program. A mode is set as its documentation sets it (`framework_programs`). The set of
tensors is 2.4 GiB and the limit 4096 MiB, on a GPU below 16 GiB half as much, and so on. Quick:
cold and points only. Processes see all GPUs, as a user's do: bytes are those of the measured one,
times include the contexts that TensorFlow makes on the others.

Kind ``exact`` for what was raised or asked, ``time`` for seconds, ``sampled`` for what meters show.
Notes hold the class and first line of every error, by what was done. Metrics: docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import GREEDY, GROWTH, LIMIT, MODES
from allocmark.experiments.core.experiment import PROFILES, Profile, refuse_missing
from allocmark.experiments.core.parts import ExperimentOfParts
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.framework_programs import OTHER_WAYS, SUBJECTS, framework_of
from allocmark.experiments.tensorflow_policy.limits import COMBINATIONS, Combined, Virtual
from allocmark.experiments.tensorflow_policy.pairs import Pairs
from allocmark.experiments.tensorflow_policy.points import NOT_QUICK, Points
from allocmark.experiments.tensorflow_policy.release import Release
from allocmark.experiments.tensorflow_policy.steps import Cold, Steps, WithoutRetry
from allocmark.machine.frameworks import why_absent
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import tensorflow_policy as metrics

_COLD_FULL, _COLD_QUICK = 6, 3
"""Six have an interval of the median; a process takes seconds, and most of them to import."""


class TensorFlowPolicy(ExperimentOfParts):
    """One document for each mode and for torch; every part in processes of its own."""

    name = metrics.EXPERIMENT
    order = 80
    parts = (Cold, Points, Steps, WithoutRetry, Release, Virtual, Combined, Pairs)

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return the modes and torch; no allocator of the suite's has a part in it.

        Torch is measured here only where there is TensorFlow to set it against.
        """
        alone = why_absent("tensorflow") is not None
        return [s for s in SUBJECTS if not (alone and framework_of(s) == "torch")]

    def framework(self, subject: str, allocators: Sequence[Allocator]) -> str:
        return framework_of(subject)

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        """Return the processes. Raises `NotMeasurableError` where the framework is missing."""
        refuse_missing(framework_of(subject))
        return [self.request(subject, parameters) for parameters in _parameters(subject, profile)]

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the figures, of a quick run with the other cells of a full one, which say so."""
        figures = super().combine(outcomes)
        quick = next((o.request for o in outcomes if o.request.parameters.get("quick")), None)
        if quick is None:
            return figures
        known = {(figure.metric, frozenset(figure.axes.items())) for figure in figures}
        for parameters in _parameters(quick.subject, PROFILES["full"]):
            for axes, left_out in self._part(quick.subject, parameters).cells():
                for metric in left_out:
                    if (metric.name, frozenset(axes.items())) not in known:
                        known.add((metric.name, frozenset(axes.items())))
                        figures.append(metric.missing(NOT_QUICK, axes))
        return figures


def _parameters(subject: str, profile: Profile) -> list[dict[str, Any]]:
    """Return the parameters of each process."""
    full = profile.all_settings
    way = OTHER_WAYS.get(subject) if full else None
    chosen: list[dict[str, Any]] = [
        *([{"part": Cold.name}] * (_COLD_FULL if full else _COLD_QUICK)),
        {"part": Points.name, "way": way, "quick": not full},
    ]
    if subject == GROWTH or (full and subject in (GREEDY, LIMIT)):
        collections = (metrics.DEFAULT, metrics.OFF)
        chosen += [{"part": Release.name, "collection": one} for one in collections]
    if not full:
        return chosen
    chosen.append({"part": Steps.name})
    if subject in MODES:
        chosen.append({"part": WithoutRetry.name})
    if subject == LIMIT:
        chosen.append({"part": Virtual.name})
        chosen += [{"part": Combined.name, "setting": setting} for setting in COMBINATIONS]
    chosen.append({"part": Pairs.name, "seconds": list(SUBJECTS)})
    return chosen


EXPERIMENT = TensorFlowPolicy()
