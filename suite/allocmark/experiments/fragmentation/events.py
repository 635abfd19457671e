"""The whole course of a workload: an allocator's counters after every event, kept small.

Series ``every-event``, axes ``{workload, counter, events}``, for each counter the allocator keeps:

| counter | what it counts |
| --- | --- |
| ``allocated_over_requested`` | allocated bytes less the bytes the program requested |
| ``reserved_bytes`` | bytes held from the driver |
| ``segments`` | pieces of driver memory |
| ``driver_allocs``, ``driver_frees``, ``retries``, ``ooms`` | since the workload began |

A row is one change: ``event_step`` is how many events it comes after the row before (the first
one: after the event before the first, number -1), ``step`` by how much the counter changes (from
0). The counters are read after every event but a free, and after the last one: what a free gives
back shows at the reading after it. A counter that never leaves 0 has no rows.

Reading is slow beside an event (15 to 30 us in torch), so this is a run of its own and not the one
that is timed. Two systems agree at every event exactly where these series are equal, and the first
event at which they part can be named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from allocmark.allocators.base import Allocator, Stats
from allocmark.experiments.shared.event_replay import Script, replay
from allocmark.system.errors import NotMeasurableError
from allocmark.system.garbage import no_garbage_collection
from allocmark.workloads.event_trace import Op

_LEVELS = ("reserved_bytes", "segments")
_COUNTS = ("driver_allocs", "driver_frees", "retries", "ooms")


@dataclass
class _Changes:
    """One counter's changes."""

    event_step: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    _event: int = -1
    _value: int = 0

    def read(self, event: int, value: int) -> None:
        if value != self._value:
            self.event_step.append(event - self._event)
            self.step.append(value - self._value)
            self._event, self._value = event, value


def keeps_counters(allocator: Allocator) -> bool:
    """Whether an opened allocator counts what it holds: else its course is the program's own."""
    return allocator.stats().reserved_bytes is not None


def every_event(script: Script, allocator: Allocator) -> Mapping[str, Mapping[str, Sequence[int]]]:
    """Run a workload from the clean state; return the columns of each counter's series.

    Raises `NotMeasurableError` where it does not fit into the memory there is.
    """
    first = allocator.stats()
    changes: dict[str, _Changes] = {}
    live, last = script.live_bytes, len(script) - 1
    points = [event for event, op in enumerate(script.ops) if op != Op.FREE or event == last]

    def look(event: int) -> None:
        for name, value in _counters(allocator.stats(), first, live[event]):
            changes.setdefault(name, _Changes()).read(event, value)

    with no_garbage_collection():
        result = replay(script, allocator, look, points)
    if not result.completed:
        raise NotMeasurableError(
            f"ran out of memory at event {result.failed_event} of {len(script)}: {result.error}"
        )
    return {
        name: {"event_step": found.event_step, "step": found.step}
        for name, found in changes.items()
    }


def _counters(now: Stats, first: Stats, requested: int) -> Iterator[tuple[str, int]]:
    if now.allocated_bytes is not None:
        yield "allocated_over_requested", now.allocated_bytes - requested
    for name in _LEVELS:
        value = getattr(now, name)
        if value is not None:
            yield name, value
    for name in _COUNTS:
        value, start = getattr(now, name), getattr(first, name)
        if value is not None and start is not None:
            yield name, value - start
