"""Experiments in parts: each process measures one, and a part knows the cells that it fills."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from allocmark.experiments.core.experiment import Experiment
from allocmark.experiments.core.outcomes import fill, joined
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.schema.figure import Figure


class Part(ABC):
    """What one process measures of a subject: made in the child to do so, in the parent to plan.

    `parameters` are plain data: ``part``, its name, and whatever else it needs.
    """

    name: ClassVar[str]
    limit_s: ClassVar[float]

    def __init__(self, subject: str, parameters: Mapping[str, Any], device: int = 0) -> None:
        self.subject, self.parameters, self.device = subject, parameters, device

    def environment(self) -> Mapping[str, str]:
        """Return the variables that its process needs."""
        return {}

    def prepare(self) -> None:
        """Import what is slow, touch no GPU."""

    @abstractmethod
    def measure(self, recorder: Recorder) -> None:
        """Measure and report."""

    @abstractmethod
    def cells(self) -> Iterable[Cell]:
        """Return every cell that it should fill."""


class ExperimentOfParts(Experiment):
    """An experiment whose requests name one of its `parts`."""

    parts: ClassVar[Sequence[type[Part]]]

    def request(self, subject: str, parameters: Mapping[str, Any]) -> Request:
        """Return the request for a process of one part."""
        part = self._part(subject, parameters)
        return Request(
            experiment=self.name,
            subject=subject,
            limit_s=part.limit_s,
            parameters=parameters,
            environment=part.environment(),
            framework=self.framework(subject, ()),
        )

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        part = self._part(request.subject, request.parameters, request.device)
        part.prepare()
        return part.measure

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the figures: those of like processes joined, and a reason in each cell without."""
        groups: dict[str, list[ChildOutcome]] = {}
        for outcome in outcomes:
            alike = json.dumps(outcome.request.parameters, sort_keys=True)
            groups.setdefault(alike, []).append(outcome)
        figures: list[Figure] = []
        for group in groups.values():
            first = group[0].request
            found = fill(group, self._part(first.subject, first.parameters).cells())
            figures += joined(found) if len(group) > 1 else found
        return figures

    def _part(self, subject: str, parameters: Mapping[str, Any], device: int = 0) -> Part:
        made = {part.name: part for part in self.parts}[parameters["part"]]
        return made(subject, parameters, device)
