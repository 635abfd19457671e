"""What streams cost an allocator that knows them: memory by pool, time by handoff, and threads.

One child for each such allocator. Document ``streams``, subject = allocator.

**Tasks on streams**, axes ``use``, ``streams`` (1, 2, 4, 8, 16), ``bytes`` (`SIZES`). A task
allocates one block, has the GPU write it (and more, so that the GPU lags behind the host), and
frees it; nothing waits for the GPU in between.

- ``private``: `TASKS` tasks take turns over N streams, each block used on its own stream;
- ``handoff``: the same, but each block is used on the next stream and ``record_stream`` is called
  on it, so that its free waits for that stream (one stream alone has nobody to hand to);
- ``one-shot``: N tasks, each on a stream made for it and never used again.

Bytes are ``sampled`` for allocators that do not repeat to the byte, and for ``handoff``. Times are
without each stream's first task, except in ``one-shot``, which has only such, on quiet cores and at
one core speed, as hits are (`allocmark.meters.quiet`).

**Private pools**: what `pools.POOL_BLOCKS` blocks hold in torch's two kinds of them, ``live`` to
``released``. **Threads**: native ones, no GIL; each makes `threads.PAIRS` pairs of cached blocks.

Notes: ``cpus``, ``address layout`` and those of the quiet cores, as in `latency`. Metrics:
docs/metrics.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from allocmark.allocators.base import Allocator, Capability, Tier
from allocmark.experiments.core.allocator_experiment import AllocatorExperiment, is_base
from allocmark.experiments.core.experiment import Profile
from allocmark.experiments.core.outcomes import fill
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.streams import pools, tasks, threads
from allocmark.meters.quiet import QuietCores
from allocmark.meters.timing import library
from allocmark.schema import notes
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import streams as metrics
from allocmark.system.address_layout import address_layout
from allocmark.system.garbage import no_garbage_collection

_REPEATS = 10
_FEW_REPEATS = 4
"""Of a quick run, and of settings of an allocator that is read in full anyway."""
_ONE_LOCK = "a setting changes no lock: threads are measured with its base allocator"


class Streams(AllocatorExperiment):
    """All uses of streams, private pools and threads over one allocator in one process."""

    name = metrics.EXPERIMENT
    order = 50
    scales_to_core_speed = True

    def measures(self, allocator: Allocator, profile: Profile) -> bool:
        streams = Capability.STREAMS in allocator.capabilities
        wanted = profile.all_settings or is_base(allocator)
        return streams and wanted and not allocator.needs_limit

    def children(self, allocator: Allocator, profile: Profile) -> list[Mapping[str, Any]]:
        thorough = profile.all_settings and allocator.tier is not Tier.SETTING
        repeats = _REPEATS if thorough else _FEW_REPEATS
        return [{"repeats": repeats, "threads": allocator.tier is not Tier.SETTING}]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        library()
        return super().prepare(request)

    def measure(self, request: Request, allocator: Allocator, recorder: Recorder) -> None:
        allocator.open(request.device)
        repeats: int = request.parameters["repeats"]
        recorder.note(notes.CPUS, len(os.sched_getaffinity(0)))
        recorder.note(notes.ADDRESS_LAYOUT, address_layout())
        with no_garbage_collection(collect_first=True):
            with recorder.stage("tasks"), QuietCores(request.core_speed_ns) as quiet:
                tasks.measure(allocator, quiet, repeats, recorder)
                quiet.tell(recorder.note)
            with recorder.stage("threads"):
                if request.parameters["threads"]:
                    threads.measure(allocator, request.device, repeats, recorder)
                else:
                    recorder.unfilled(threads.cells(), _ONE_LOCK)
            with recorder.stage("private pools"):
                pools.measure(allocator, recorder)

    def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
        """Return the figures, with a reason in every cell that was not reached."""
        return fill(outcomes, [*tasks.cells(), *pools.cells(), *threads.cells()])


EXPERIMENT = Streams()
