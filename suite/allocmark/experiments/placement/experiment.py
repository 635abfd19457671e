"""Where an allocator puts blocks: which hole it takes, and when free neighbours become one.

Document ``placement``, subject = allocator: those of every run that cache, less those over the
driver's own pool, which places blocks itself, and TensorFlow's greedy mode, whose allocator is that
of its limit. One child. A block of
512 MiB is taken and freed, so that all that follows is cut out of one piece; then a crafted
sequence asks, and the address that comes back answers.

| metric | unit | axes | meaning |
| --- | --- | --- | --- |
| ``best_fit`` | count | | 1 where each of two requests went into the smallest hole that fits, though larger ones lay before it |
| ``merges_at_free`` | count | | 1 where two freed neighbours served a request of both at once, while a larger hole was free too |
| ``splits`` | count | | 1 where what was left of a larger hole served the next request |
| ``hole_bytes`` | bytes | ``request`` | the hole that a request of so many bytes went into |

Kind ``exact``. An allocator whose blocks do not lie side by side has a reason instead: holes could
not be made.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator, Capability
from allocmark.experiments.core.allocator_experiment import (
    AllocatorExperiment,
    is_base,
)
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.allocator_setting import setting_in_force
from allocmark.experiments.shared.event_replay import restart
from allocmark.schema.figure import Axis, Figure
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
_LIMIT_S = 120.0
METRICS: Mapping[str, str] = {"best_fit": "count", "merges_at_free": "count", "splits": "count"}


class Placement(AllocatorExperiment):
    """One crafted sequence over each allocator that caches."""

    name = "placement"
    order = 70

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        caches = Capability.CACHE in allocator.capabilities
        return is_base(allocator) and caches and not allocator.driver_pool

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        return [{}]

    def limit_s(self, parameters: Mapping[str, Any]) -> float:
        return _LIMIT_S

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        recorder.note("setting", setting_in_force(allocator))
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
        for axes, metrics in _expected():
            for metric, unit in metrics.items():
                recorder.missing(metric, unit, in_words(error), axes)
        raise
    for request, hole in holes.items():
        axes = {"request": request}
        recorder.figure(Figure("hole_bytes", "bytes", "exact", _METER, axes, hole, [hole]))
    told = {"best_fit": holes == _REQUESTS, "merges_at_free": merges, "splits": splits}
    for metric, unit in METRICS.items():
        value = int(told[metric])
        recorder.figure(Figure(metric, unit, "exact", _METER, {}, value, [value]))


def _fit(allocator: Allocator) -> dict[int, int]:
    """Return the hole that each request went into; 0 for none of them."""
    held = _Held(allocator)
    holes = {}
    for size in _HOLES:
        holes[held.take(size)] = size
        held.take(_WALL)
    held.check_side_by_side()
    for address in holes:
        held.give(address)
    found = {request: holes.get(held.take(request), 0) for request in _REQUESTS}
    held.give_all()
    return found


def _merge(allocator: Allocator) -> tuple[bool, bool]:
    """Return whether freed neighbours are one at once, and whether the rest of a hole is used."""
    held = _Held(allocator)
    first, second = held.take(_WALL), held.take(_WALL)
    held.take(_WALL)
    held.check_side_by_side()
    held.give(first)
    held.give(second)
    both = held.take(2 * _WALL)
    held.give(both)
    merges = both == first
    cut = held.take(_HALF)
    splits = cut == first and held.take(2 * _WALL - _HALF) == first + _HALF
    held.give_all()
    return merges, splits


class _Held:
    """Blocks cut out of one piece, and their addresses."""

    def __init__(self, allocator: Allocator) -> None:
        restart(allocator)
        self._allocator = allocator
        self._sizes: dict[int, int] = {}
        self.give(self.take(_PIECE))

    def take(self, size: int) -> int:
        block = self._allocator.alloc(size)
        self._sizes[block] = size
        return block

    def give(self, block: int) -> None:
        del self._sizes[block]
        self._allocator.free(block)
        self._allocator.synchronize()

    def give_all(self) -> None:
        for block in list(self._sizes):
            self.give(block)

    def check_side_by_side(self) -> None:
        """Raise `NotMeasurableError` where the blocks do not follow each other."""
        blocks = list(self._sizes.items())
        for (address, size), (following, _) in itertools.pairwise(blocks):
            if following != address + size:
                self.give_all()
                raise NotMeasurableError(
                    f"{self._allocator.name} does not put blocks side by side, or does not tell "
                    "their addresses: no hole can be made"
                )


def _expected() -> Iterable[tuple[Mapping[str, Axis], Mapping[str, str]]]:
    yield {}, METRICS
    for request in _REQUESTS:
        yield {"request": request}, {"hole_bytes": "bytes"}


EXPERIMENT = Placement()
