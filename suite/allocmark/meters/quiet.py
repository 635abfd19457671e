"""Readings taken only while nobody else slows the core, judged by work of our own.

On a shared host a core may run at half its speed for milliseconds, because another virtual machine
uses its other hyper-thread: the same cached hit then reads 0.4 or 0.7 microseconds, and a median
over both says which of them was more frequent. So a fixed piece of reference work is timed before
and after each reading. Where either took over `AIM` times what it takes on a quiet core, the
reading is refused and the next one is tried, on another core if need be; readings beyond
`TOLERANCE` make a cell noisy. What is refused depends on the reference work alone, never on the
reading.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from allocmark.meters.timing import clock, library

Reading = TypeVar("Reading")

TOLERANCE = 1.12
"""A shared core takes half as long again; what lies below is frequency."""
AIM = 1.06
"""Cores of a host run at frequencies some 4 % apart, and a hit is as much slower: of the quiet
readings those at the fastest one are taken, as far as there is time for them. Two runs then read at
one frequency, where the host lets both have it."""
_ON_ONE_CORE = 32
"""Readings kept before the next core's turn: cores differ, and a median should not depend on which
one the process was started on."""
FLAG_NOISY = "noisy-cpu"
"""Too few readings came from a quiet core: the least disturbed of the others fill them up."""
_WARM_UP = 4
"""Reference works after a move, before one is believed: a core that has just been moved to has
nothing of ours in its caches, and the first takes four times as long on the quietest."""
_CALIBRATIONS = 40
_CALIBRATION_ROUNDS = 75
_QUIET_QUANTILE = 0.02
"""The standard is what the fastest fiftieth of the reference works takes, all cores in turns: on a
busy host a core is ours alone for a twentieth of the time, and a median tells how busy it is."""
_TRIES = 16
"""Readings tried for each one wanted, at most: where nobody disturbs, the first is taken."""
_PATIENCE_S = 0.00075
"""Time for each reading wanted, at most."""


class QuietCores:
    """Moves the measuring thread to where it is undisturbed; its cores are restored at the end."""

    def __init__(self) -> None:
        work = library().am_reference
        work.argtypes, work.restype = (ctypes.c_int32,), ctypes.c_int64
        number = clock()[1]
        self._work: Callable[[], int] = lambda: work(number)
        self._allowed = sorted(os.sched_getaffinity(0))
        self._quiet_ns: float = sys.maxsize
        self._next = 0
        self.taken = self.refused = 0

    def __enter__(self) -> QuietCores:
        works = sorted(
            taken
            for _ in range(_CALIBRATION_ROUNDS)
            for core in self._allowed
            for taken in self._calibrate(core)
        )
        self._quiet_ns = works[int(_QUIET_QUANTILE * len(works))]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.sched_setaffinity(0, self._allowed)

    @property
    def quiet_ns(self) -> float:
        """What the reference work takes on a quiet core, in nanoseconds: the standard."""
        return self._quiet_ns

    @property
    def refused_share(self) -> float:
        """The share of readings that were refused."""
        return self.refused / max(1, self.taken + self.refused)

    def settle(self) -> bool:
        """Move to a core that is quiet now, or to some core where none is; return if it moved."""
        moved = False
        for _ in self._allowed:
            if self.slowness() <= AIM:
                break
            self._move()
            moved = True
        return moved

    def slowness(self) -> float:
        """Return how long the reference work takes now, over what it takes on a quiet core."""
        return self._work() / self._quiet_ns

    def take(
        self, read: Callable[[], Reading], count: int, tries: int = _TRIES
    ) -> tuple[list[Reading], bool]:
        """Return `count` readings, and whether all of them come from a quiet core.

        At most `tries` readings are made for each one wanted, in bounded time: what is missing
        then is filled up with the least disturbed of the others.
        """
        kept: list[Reading] = []
        disturbed: list[tuple[float, int, Reading]] = []
        deadline = time.monotonic() + count * _PATIENCE_S
        self.settle()
        read()  # The first after a move finds its own data in no cache.
        before = self.slowness()
        for number in range(count * tries):
            reading = read()
            after = self.slowness()
            worst = max(before, after)
            before = after
            if worst <= AIM:
                kept.append(reading)
                if len(kept) == count:
                    break
                turn_over = len(kept) % _ON_ONE_CORE == 0
                if not turn_over:
                    continue
                self._move()
            else:
                turn_over = False
                disturbed.append((worst, number, reading))
                if time.monotonic() > deadline:
                    if len(kept) + len(disturbed) >= count:
                        break
                    continue
            if self.settle() or turn_over:
                read()
            before = self.slowness()
        fill = sorted(disturbed, key=lambda item: item[:2])[: count - len(kept)]
        self.taken += count
        self.refused += len(kept) + len(disturbed) - count
        kept += [reading for _, _, reading in fill]
        return kept, all(worst <= TOLERANCE for worst, _, _ in fill)

    def _calibrate(self, core: int) -> list[int]:
        self._go_to(core)
        return [self._work() for _ in range(_CALIBRATIONS)]

    def _move(self) -> None:
        self._next = (self._next + 1) % len(self._allowed)
        self._go_to(self._allowed[self._next])

    def _go_to(self, core: int) -> None:
        os.sched_setaffinity(0, {core})
        for _ in range(_WARM_UP):
            self._work()
