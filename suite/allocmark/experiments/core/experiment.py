"""An experiment: what to ask of which children, how to measure in them, what to make of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from allocmark.allocators.base import Allocator
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.machine.stack import BARE, installed, lacks_cuda
from allocmark.schema.figure import Figure
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import GIB


@dataclass(frozen=True, slots=True)
class Profile:
    """How thorough a run is. `full` makes the published tables, `quick` tracks and tests.

    Both visit the same cells where they can; `quick` takes fewer samples of each.
    """

    name: str
    cold_processes: int
    """Fresh processes for each cell of a cold measurement."""
    hit_batches: int
    single_calls: int
    miss_samples: int
    miss_seconds: float
    """What the samples of one miss cell may cost in all."""
    largest_bytes: int | None
    """Larger blocks are not timed: each takes a good part of a second to map. None: all are."""
    capacity_search: bool
    """Whether the smallest capacity is searched for the base allocators."""
    all_settings: bool
    """Whether allocators beyond the base ones are measured."""
    patient: bool = False
    """Whether documents are requested by their names: they take the time they need, which a run of
    everything does not have for each."""


PROFILES = {
    "full": Profile(
        name="full",
        cold_processes=10,
        hit_batches=200,
        single_calls=10_000,
        miss_samples=30,
        miss_seconds=1.0,
        largest_bytes=None,
        capacity_search=True,
        all_settings=True,
    ),
    "quick": Profile(
        name="quick",
        cold_processes=6,
        hit_batches=200,
        single_calls=500,
        miss_samples=5,
        miss_seconds=0.1,
        largest_bytes=8 * GIB,
        capacity_search=False,
        all_settings=False,
    ),
}


class Experiment(ABC):
    """One question of the suite. The child runs `prepare`, the parent all else.

    It is a folder beside ``core`` whose ``experiment.py`` has an instance, ``EXPERIMENT``: one
    object for all requests, which remembers none of them.
    """

    name: ClassVar[str]
    """Of its documents and on the command line."""
    order: ClassVar[int]
    """Its place in a run and in lists: lower ones first."""
    on_demand: ClassVar[bool] = False
    """Whether no run of the suite contains it: others start it."""
    alone: ClassVar[bool] = False
    """Whether not even the imports of the next child may run beside its children, unless there are
    cores to spare: its times are of nanoseconds."""
    scales_to_core_speed: ClassVar[bool] = False
    """Whether it gives times at the machine's core speed, read where addresses are not randomized:
    both move what a cached call takes by several percent from process to process."""

    @abstractmethod
    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        """Return what gets a document each: names of `allocators`, mostly."""

    def framework(self, subject: str, allocators: Sequence[Allocator]) -> str:
        """Return what that subject needs, which decides about the stack it is measured under."""
        return BARE

    @abstractmethod
    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        """Return the children to start for that subject, in order.

        Raises `NotMeasurableError` where what it needs is missing.
        """

    @abstractmethod
    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        """In the child, before its turn: import what is slow, touch no GPU.

        Returns what measures and reports; what that raises ends this child only.
        """

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the document's figures: those of all children, unless a subclass joins them."""
        return [figure for outcome in outcomes for figure in outcome.figures]


def refuse_missing(framework: str) -> None:
    """Raise `NotMeasurableError` where a framework is not installed, or without CUDA."""
    if framework == BARE:
        return
    found = installed(framework)
    if not found.get(framework):
        raise NotMeasurableError(f"{framework} is not installed here")
    if lacks_cuda(framework, found):
        raise NotMeasurableError(f"{framework} is installed here without CUDA")
