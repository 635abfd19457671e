"""Where an allocator puts blocks: which hole it takes, and when free neighbours become one.

Document ``placement``, subject = allocator: those of every run that cache, less those over the
driver's own pool, which places blocks itself, and TensorFlow's greedy mode, whose allocator is that
of its limit. One child. A block of
512 MiB is taken and freed, so that all that follows is cut out of one piece; then a crafted
sequence of requests shows by its addresses what they did; the metrics are in docs/metrics.md. An
allocator whose blocks do not lie side by side has a reason instead: holes could
not be made.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator, Capability
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment, is_base
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.experiments.shared.event_replay import restart
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import placement as metrics
from allocmark.schema.notes import SETTING
from allocmark.system.errors import NotMeasurableError
from allocmark.system.units import MIB

_PIECE = 512 * MIB
_HOLES = (64 * MIB, 48 * MIB, 56 * MIB)
_WALL = 32 * MIB
"""A live block behind each hole, so that no two are neighbours."""
_REQUESTS = {44 * MIB: 48 * MIB, 52 * MIB: 56 * MIB}
"""Request to the smallest hole that holds it; the first hole of all is larger."""
_HALF = 40 * MIB
_METER = "addresses of blocks"


class Placement(AllocatorExperiment):
    """One crafted sequence over each allocator that caches."""

    name = metrics.EXPERIMENT
    order = 70

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        caches = Capability.CACHE in allocator.capabilities
        return is_base(allocator) and caches and not allocator.driver_pool

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        return [{}]

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        recorder.note(SETTING, setting_in_force(allocator))
        with recorder.stage("placement"):
            measure_placement(allocator, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        return fill(outcomes, _expected())


def measure_placement(allocator: Allocator, recorder: Recorder) -> None:
    """Run both sequences on an opened allocator and send what the addresses say."""
    try:
        holes = _fit(allocator)
        merges, splits = _merge(allocator)
    except Exception as error:
        recorder.unfilled(_expected(), in_words(error))
        raise
    for request, hole in holes.items():
        recorder.figure(metrics.HOLE_BYTES.figure(_METER, {"request": request}, hole, [hole]))
    found = {
        metrics.BEST_FIT: holes == _REQUESTS,
        metrics.MERGES_AT_FREE: merges,
        metrics.SPLITS: splits,
    }
    for metric, holds in found.items():
        recorder.figure(metric.figure(_METER, {}, int(holds), [int(holds)]))


def _fit(allocator: Allocator) -> dict[int, int]:
    """Return the hole that each request went into; 0 for none of them."""
    held = _Held(allocator)
    holes = {}
    for size in _HOLES:
        holes[held.alloc(size)] = size
        held.alloc(_WALL)
    held.check_side_by_side()
    for address in holes:
        held.free(address)
    found = {request: holes.get(held.alloc(request), 0) for request in _REQUESTS}
    held.free_all()
    return found


def _merge(allocator: Allocator) -> tuple[bool, bool]:
    """Return whether freed neighbours are one at once, and whether the rest of a hole is used."""
    held = _Held(allocator)
    first, second = held.alloc(_WALL), held.alloc(_WALL)
    held.alloc(_WALL)
    held.check_side_by_side()
    held.free(first)
    held.free(second)
    both = held.alloc(2 * _WALL)
    held.free(both)
    merges = both == first
    cut = held.alloc(_HALF)
    splits = cut == first and held.alloc(2 * _WALL - _HALF) == first + _HALF
    held.free_all()
    return merges, splits


class _Held:
    """Blocks cut out of one piece, and their addresses."""

    def __init__(self, allocator: Allocator) -> None:
        restart(allocator)
        self._allocator = allocator
        self._sizes: dict[int, int] = {}
        self.free(self.alloc(_PIECE))

    def alloc(self, size: int) -> int:
        block = self._allocator.alloc(size)
        self._sizes[block] = size
        return block

    def free(self, block: int) -> None:
        del self._sizes[block]
        self._allocator.free(block)
        self._allocator.synchronize()

    def free_all(self) -> None:
        for block in list(self._sizes):
            self.free(block)

    def check_side_by_side(self) -> None:
        """Raise `NotMeasurableError` where the blocks do not follow each other."""
        blocks = list(self._sizes.items())
        for (address, size), (following, _) in itertools.pairwise(blocks):
            if following != address + size:
                self.free_all()
                raise NotMeasurableError(
                    f"{self._allocator.name} does not put blocks side by side, or does not tell "
                    "their addresses: no hole can be made"
                )


def _expected() -> list[Cell]:
    return [
        ({}, (metrics.BEST_FIT, metrics.MERGES_AT_FREE, metrics.SPLITS)),
        *(({"request": request}, (metrics.HOLE_BYTES,)) for request in _REQUESTS),
    ]


EXPERIMENT = Placement()
