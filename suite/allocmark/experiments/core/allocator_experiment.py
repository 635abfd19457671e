"""Experiments whose subjects are allocators: which of them, and what to ask of their processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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


class AllocatorExperiment(Experiment):
    """One document for each allocator that it measures."""

    @abstractmethod
    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        """Whether that allocator is a subject."""

    @abstractmethod
    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        """Return the parameters of each process to start for it, in order."""

    def limit_s(self, parameters: Mapping[str, Any]) -> float:
        """Return how many seconds a process with these parameters may take."""
        return 120.0

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        return [a.name for a in allocators if self.measures(a, profile)]

    def framework(self, subject: str, allocators: Sequence[Allocator]) -> str:
        return _named(subject, allocators).framework

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        allocator = _named(subject, allocators)
        return [
            Request(
                experiment=self.name,
                subject=subject,
                limit_s=self.limit_s(parameters),
                parameters=parameters,
                environment=dict(allocator.environment),  # Read-only mappings cannot be sent.
                framework=allocator.framework,
            )
            for parameters in self.children(allocator, profile)
        ]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        allocator = registry(request.allocator_file)[request.subject]
        allocator.prepare()
        for workload in request.parameters.get("workloads", ()):
            catalog.load(workload)  # Unpacked while another child measures, and kept.
        return partial(self.measure, request, allocator)

    @abstractmethod
    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        """In the child: open the allocator, measure and report."""


def _named(subject: str, allocators: Sequence[Allocator]) -> Allocator:
    return next(allocator for allocator in allocators if allocator.name == subject)
