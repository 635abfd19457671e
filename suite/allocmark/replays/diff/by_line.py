"""Who holds memory at the peak of two recordings, by call stack, the same places side by side.

Between two versions of a program its files lie elsewhere and its lines move. Stacks are the same
place when files and functions are; among those of one place equal lines go together first, then
what is left in the order of its lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from allocmark.recording.importers.recording import Recording
from allocmark.replays.diff import own_files
from allocmark.workloads.event_trace import Op


@dataclass(frozen=True, slots=True)
class Held:
    """Blocks that are alive at the peak and were allocated at one place; requested bytes."""

    stack: Sequence[str]
    blocks: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LineChange:
    """One place of the program in both; None where it holds nothing."""

    before: Held | None
    after: Held | None

    @property
    def change_bytes(self) -> int:
        """How much more it holds."""
        return _size(self.after) - _size(self.before)

    @property
    def stack(self) -> Sequence[str]:
        """The call stack as it is now, or was."""
        found = self.after or self.before
        return found.stack if found else ()


@dataclass(frozen=True, slots=True)
class Peak:
    """What is alive where most requested bytes are."""

    event: int
    size_bytes: int
    held: Sequence[Held]


def at_peak(recording: Recording) -> Peak:
    """Return who holds what at the peak of requested bytes; all adds up to it."""
    trace = recording.trace
    live = trace.live_bytes
    if not len(live):
        return Peak(-1, 0, ())
    event = int(live.argmax())
    op, block = trace.op[: event + 1], trace.block[: event + 1]
    alive = np.setdiff1d(block[op == Op.ALLOC], block[op == Op.FREE])
    sizes = np.zeros(int(trace.block.max(initial=-1)) + 1, np.int64)
    allocs = trace.op == Op.ALLOC
    sizes[trace.block[allocs]] = trace.size[allocs]
    found: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
    for one in alive.tolist():
        found[tuple(recording.stack(one))].append(int(sizes[one]))
    held = [Held(stack, len(own), sum(own)) for stack, own in found.items()]
    return Peak(event, int(live[event]), held)


def align(before: Sequence[Held], after: Sequence[Held]) -> list[LineChange]:
    """Return what each place holds in both, the largest change first; nothing is left out."""
    same_file = own_files.matched(
        own_files.of(one.stack for one in before), own_files.of(one.stack for one in after)
    )
    places: defaultdict[tuple[str, ...], tuple[list[Held], list[Held]]]
    places = defaultdict(lambda: ([], []))
    for one in before:
        places[_place(one.stack, same_file)][0].append(one)
    for one in after:
        places[_place(one.stack, {})][1].append(one)
    found = [change for sides in places.values() for change in _pairs(*sides)]
    return sorted(found, key=lambda one: (-abs(one.change_bytes), one.stack))


def _pairs(before: list[Held], after: list[Held]) -> list[LineChange]:
    same = {_lines(one.stack): one for one in before}
    found, new = [], []
    for one in after:
        other = same.pop(_lines(one.stack), None)
        if other is None:
            new.append(one)
        else:
            found.append(LineChange(other, one))
    gone = sorted(same.values(), key=lambda one: _lines(one.stack))
    new.sort(key=lambda one: _lines(one.stack))
    moved = min(len(gone), len(new))
    found += [LineChange(a, b) for a, b in zip(gone[:moved], new[:moved], strict=True)]
    found += [LineChange(a, None) for a in gone[moved:]]
    return [*found, *(LineChange(None, b) for b in new[moved:])]


def _place(stack: Sequence[str], same_file: Mapping[str, str]) -> tuple[str, ...]:
    """Return a stack without lines, its files named as in the recording that is looked at."""
    frames = (own_files.parts(frame) for frame in stack)
    return tuple(
        f"{own_files.below_packages(file) or same_file.get(file, file)} {name}"
        for file, _, name in frames
    )


def _lines(stack: Sequence[str]) -> tuple[int, ...]:
    return tuple(own_files.parts(frame)[1] for frame in stack)


def _size(held: Held | None) -> int:
    return held.size_bytes if held else 0
