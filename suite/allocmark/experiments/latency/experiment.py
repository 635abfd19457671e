"""What an allocation costs, by the way it takes, its size, and who calls.

One child for each allocator. Document ``latency``, subject = allocator.

``call_ns`` (ns, time) has the axes

- ``path``: ``first`` (the first call of that size at that level in the process), ``miss`` (nothing
  is cached: the driver is called), ``hit`` (a block of that size was just freed and is cached),
  ``give-back`` (exactly one cached block is returned to the driver);
- ``call``: ``alloc``, ``free``, ``pair`` (both). Not every path has every call: see `CELLS`.
  ``give-back`` has ``free`` only: the trim (``empty_cache``) of an allocator that caches, the
  free of one that does not, and the synchronization that empties a driver pool with release
  threshold 0. The ``free`` of a ``miss`` is the one that follows the missed allocation;
- ``level``: ``allocator`` (its own entry point: native loop where it has C entry points) or ``op``
  (the framework's operation, called and dropped by a line of Python);
- ``wait``: ``host`` (until the call returns) or ``complete`` (until the stream is synchronized
  after it; the synchronization is part of the reading);
- ``bytes``: `SIZES`, the same on every machine.

`value` is the median. Hits: means of batches (``meter`` says how many calls a batch has), taken in
turns over all sizes; in ``complete`` cells single calls. Misses, releases: single calls, all
of them in `samples`, whose minimum, maximum and count are meant to be shown; the two levels take
turns. First: one reading. Libraries beside the base allocators are read up to 8 GiB.

Further figures are in docs/metrics.md; `samples` and `counts` of ``call_p99_ns`` are the lossless
histogram of hits.

Nothing is subtracted from anything. All but single cold calls are read on quiet cores
(`allocmark.meters.quiet`), cells that found too few of them are flagged ``noisy-cpu``. Hits, also
until completion, and all that is read of loops and clocks, need the core alone and are given at one
core speed: each reading times ``core pace ns`` over what the core's chain of multiplications took
beside it (the meter says so). All else is given as read. The process runs without randomized
addresses, where the system lets it. Notes: see `schema.notes`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator, Tier
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment, is_base
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.latency.cells import SIZES, expected
from allocmark.experiments.latency.check import measure_check, measure_cost
from allocmark.experiments.latency.hits import measure_hits
from allocmark.experiments.latency.levels import Bench
from allocmark.experiments.latency.misses import measure_misses
from allocmark.meters.timing import library
from allocmark.schema import notes
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import latency as metrics
from allocmark.system.address_layout import address_layout
from allocmark.system.garbage import no_garbage_collection
from allocmark.system.units import GIB

_LARGEST_OF_TIER = {Tier.LIBRARY: 8 * GIB}
"""A larger block takes the driver the same, whoever asks: the base allocators show how long."""
_LEAST_MISSES = {"full": 5}
_LEAST_QUICK = 1
"""A quick run takes fewer samples of misses that cost more than the whole of their budget."""


class Latency(AllocatorExperiment):
    """All sizes, paths and levels of one allocator in one process."""

    name = metrics.EXPERIMENT
    order = 20
    alone = True
    scales_to_core_speed = True

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        """Whether it is a base allocator or, in full, no mere setting of one."""
        return is_base(allocator) or (profile.all_settings and allocator.tier is not Tier.SETTING)

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        parameters = {
            "sizes": list(SIZES),
            "hit_batches": profile.hit_batches,
            "single_calls": profile.single_calls,
            "miss_samples": profile.miss_samples,
            "miss_seconds": profile.miss_seconds,
            "largest_bytes": profile.largest_bytes or _LARGEST_OF_TIER.get(allocator.tier),
            "least_misses": _LEAST_MISSES.get(profile.name, _LEAST_QUICK),
        }
        return [parameters]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        library()
        return super().prepare(request)

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        parameters: Any = request.parameters
        bench = Bench(allocator, parameters["largest_bytes"], request.core_speed_ns)
        recorder.note(notes.CLOCK, bench.clock)
        recorder.note(notes.CPUS, len(os.sched_getaffinity(0)))
        with no_garbage_collection(collect_first=True), bench.quiet:
            with recorder.stage("loop cost"):
                measure_cost(bench, parameters["hit_batches"], recorder)
            with recorder.stage("misses"):
                measure_misses(bench, parameters, recorder)
            with recorder.stage("hits"):
                measure_hits(bench, parameters, recorder)
            with recorder.stage("cross check"):
                measure_check(bench, parameters["hit_batches"], recorder)
        bench.quiet.tell(recorder.note)
        recorder.note(notes.ADDRESS_LAYOUT, address_layout())

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the figures, with a reason in every cell that was not reached."""
        sizes = [size for o in outcomes for size in o.request.parameters["sizes"]]
        return fill(outcomes, expected(sizes))


EXPERIMENT = Latency()
