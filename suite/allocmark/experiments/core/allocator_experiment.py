"""Experiments whose subjects are allocators: which of them, and what to ask of their processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Tier
from allocmark.experiments.core.experiment import Experiment, Profile
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import Request
from allocmark.workloads import catalog


def is_base(allocator: Allocator) -> bool:
    """Whether every run measures an allocator."""
    return allocator.tier is Tier.BASE


def allocator_of(request: Request) -> Allocator:
    """Return the allocator that a request names, in the child."""
    return registry(request.allocator_file)[request.subject]


class AllocatorExperiment(Experiment):
    """One document for each allocator that it measures."""

    def __init__(self) -> None:
        self._known: dict[str, Allocator] = {}

    @abstractmethod
    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        """Whether that allocator is a subject."""

    @abstractmethod
    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        """Return the parameters of each process to start for it, in order."""

    @abstractmethod
    def limit_s(self, parameters: Mapping[str, Any]) -> float:
        """Return how many seconds a process with these parameters may take."""

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        self._known = {allocator.name: allocator for allocator in allocators}
        return [a.name for a in allocators if self.measures(a, profile)]

    def framework(self, subject: str) -> str:
        return self._allocator(subject).framework

    def requests(self, subject: str, profile: Profile) -> list[Request]:
        allocator = self._allocator(subject)
        environment = dict(allocator.environment)  # Read-only mappings cannot be sent.
        return [
            Request(
                *(self.name, subject, self.limit_s(parameters), parameters),
                *(environment, allocator.framework),
            )
            for parameters in self.children(allocator, profile)
        ]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        allocator_of(request).prepare()
        for workload in request.parameters.get("workloads", ()):
            catalog.load(workload)  # Unpacked while another child measures, and kept.
        return super().prepare(request)

    def _allocator(self, subject: str) -> Allocator:
        return self._known.get(subject) or registry()[subject]
