"""Readings taken only while nobody else slows the core, and what they would be at one frequency.

On a shared host a core may run at half its speed for milliseconds, because another virtual machine
uses its other hyper-thread: the same cached hit then reads 0.46 or 0.83 microseconds, and a median
over both says which of them was more frequent. And what other cores do moves a core's frequency by
15 %. So two fixed pieces of work (``native/reference.c``) are timed before and after each reading:
a chain of multiplications, which tells how fast the core runs (its speed), and an errand that a
neighbour slows as it slows a hit. Where errand over chain was beyond `TOLERANCE` times what it is
on a core of our own, the reading is refused and the next one is tried, on another core if need be.
Each reading comes with the factor that brings it to one speed for all. What is refused, and the
factor, depend on the reference work alone, never on the reading.

Over ten processes on such a host, medians of quiet hits (pairs by the native loop) were 4 % apart
as read and 1 % at one speed; pairs by Python's operations 13 and 8 %.
"""

from __future__ import annotations

import ctypes
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Generic, NamedTuple, TypeVar

from allocmark.meters.timing import clock, library
from allocmark.schema import notes

Reading = TypeVar("Reading")

TOLERANCE = 1.1
"""A shared core takes 1.7 times as long for its errands; one reading in twenty lies in between."""
_ON_ONE_CORE = 32
"""Readings kept before the next core's turn: cores differ, and a median should not depend on which
one the process was started on."""
_WARM_UP = 4
"""Reference works after a move, before one is believed: a core that has just been moved to has
nothing of ours in its caches, and the first takes four times as long on the quietest."""
_CALIBRATIONS = 40
_CALIBRATION_ROUNDS = 75
_CALIBRATION_VISITS = 600
"""Visits of a core, all rounds together: many cores need fewer rounds to meet a quiet one."""
_QUIET_QUANTILE = 0.03
"""The standard is the ratio of the quietest few reference works, all cores in turns: on a busy host
a core is ours alone for a twentieth of the time, and a median tells how busy it is."""
_TRIES = 16
"""Readings tried for each one wanted, at most: where nobody disturbs, the first is taken."""
_PATIENCE_S = 0.00075
"""Time for each reading wanted, at most."""
_NO_SUCH_CORE = 1.3
"""A speed that differs by more than this factor is not the same computer's."""


class Reference(NamedTuple):
    """One reference work: nanoseconds of the chain and of the errand."""

    chain_ns: int
    errand_ns: int


class CoreState(NamedTuple):
    """How a core was during a reading: at which speed, and how much slower than one of our own."""

    chain_ns: float
    slowness: float


@dataclass(frozen=True, slots=True)
class QuietSamples(Generic[Reading]):
    """Readings, the factor of each to the common speed, and whether all come from quiet cores."""

    readings: Sequence[Reading]
    factors: Sequence[float]
    quiet: bool

    def __iter__(self) -> Iterator[tuple[Reading, float]]:
        return zip(self.readings, self.factors, strict=True)


class QuietCores:
    """Moves the measuring thread to where it is undisturbed; its cores are restored at the end.

    `core_speed_ns` is what the chain takes at the speed that factors lead to; without it, or where
    this computer is another one, what it mostly takes on the quiet cores here.
    """

    def __init__(self, core_speed_ns: float | None = None) -> None:
        work = library().am_reference
        number, chain, errand = clock()[1], ctypes.c_int64(), ctypes.c_int64()
        places = ctypes.byref(chain), ctypes.byref(errand)

        def reference() -> Reference:
            work(number, *places)
            return Reference(chain.value, errand.value)

        self._work: Callable[[], Reference] = reference
        self._allowed = sorted(os.sched_getaffinity(0))
        self._requested_ns = core_speed_ns
        self._quiet_ratio = self.core_speed_ns = 1.0
        self._next = 0
        self._speeds_ns: list[float] = []
        self.taken = self.refused = 0

    def __enter__(self) -> QuietCores:
        rounds = min(_CALIBRATION_ROUNDS, ceil(_CALIBRATION_VISITS / len(self._allowed)))
        works = [
            done for _ in range(rounds) for core in self._allowed for done in self._calibrate(core)
        ]
        ratios = sorted(errand / chain for chain, errand in works)
        self._quiet_ratio = ratios[int(_QUIET_QUANTILE * len(ratios))]
        here = statistics.median(
            chain for chain, errand in works if errand / chain <= TOLERANCE * self._quiet_ratio
        )
        requested = self._requested_ns or here
        same = 1 / _NO_SUCH_CORE < requested / here < _NO_SUCH_CORE
        self.core_speed_ns = float(requested if same else here)
        return self

    def __exit__(self, *error: object) -> None:
        os.sched_setaffinity(0, self._allowed)

    def tell(self, note: Callable[[str, float], None]) -> None:
        """Note what belongs to the conditions of the readings."""
        note(notes.REFUSED_READINGS, round(self.refused / max(1, self.taken + self.refused), 3))
        note(notes.CORE_SPEED_NS, self.core_speed_ns)
        if self._speeds_ns:
            note(notes.CORE_SPEED_SEEN_NS, statistics.median(self._speeds_ns))

    def settle(self) -> bool:
        """Move to a core that is quiet now, or to some core where none is; return if it moved."""
        moved = False
        for _ in self._allowed:
            now = self._work()
            if self.between(now, now).slowness <= TOLERANCE:
                break
            self._move()
            moved = True
        return moved

    def look(self) -> Reference:
        """Do the reference work: before a reading, and after it."""
        return self._work()

    def between(self, before: Reference, after: Reference) -> CoreState:
        """Return how the core was between two reference works.

        Of the chains the shorter one counts: what interrupts a chain is no speed.
        """
        chain_ns = min(before.chain_ns, after.chain_ns)
        ratio = max(before.errand_ns, after.errand_ns) / chain_ns
        return CoreState(chain_ns, ratio / self._quiet_ratio)

    def factor(self, look: CoreState) -> float:
        """Return what brings a reading taken at that speed to the common one."""
        return self.core_speed_ns / look.chain_ns

    def take(
        self, read: Callable[[], Reading], count: int, tries: int = _TRIES
    ) -> QuietSamples[Reading]:
        """Return `count` readings.

        At most `tries` readings are made for each one wanted, in bounded time: what is missing
        then is filled up with the least disturbed of the others.
        """
        kept: list[tuple[CoreState, Reading]] = []
        disturbed: list[tuple[CoreState, Reading]] = []
        deadline = time.monotonic() + count * _PATIENCE_S
        self.settle()
        read()  # The first after a move finds its own data in no cache.
        before = self._work()
        for _ in range(count * tries):
            reading = read()
            after = self._work()
            look = self.between(before, after)
            before = after
            if look.slowness <= TOLERANCE:
                kept.append((look, reading))
                if len(kept) == count:
                    break
                turn_over = len(kept) % _ON_ONE_CORE == 0
                if not turn_over:
                    continue
                self._move()
            else:
                turn_over = False
                disturbed.append((look, reading))
                if time.monotonic() > deadline:
                    if len(kept) + len(disturbed) >= count:
                        break
                    continue
            if self.settle() or turn_over:
                read()
            before = self._work()
        self.taken += count
        self.refused += len(kept) + len(disturbed) - count
        quiet = len(kept) == count
        kept += sorted(disturbed, key=lambda one: one[0].slowness)[: count - len(kept)]
        self._speeds_ns += [look.chain_ns for look, _ in kept]
        factors = [self.factor(look) for look, _ in kept]
        return QuietSamples([reading for _, reading in kept], factors, quiet)

    def choose(
        self, readings: Sequence[tuple[CoreState, float]], least: int
    ) -> tuple[list[float], bool]:
        """Return the times of the readings from a quiet core, at the common speed.

        Where they are fewer than `least`, the least disturbed of the others come in for the rest,
        and the second value is true.
        """
        ordered = sorted(readings, key=lambda one: one[0].slowness)
        found = sum(look.slowness <= TOLERANCE for look, _ in ordered)
        chosen = ordered[: max(found, min(least, len(ordered)))]
        self.taken += len(chosen)
        self.refused += len(ordered) - len(chosen)
        self._speeds_ns += [look.chain_ns for look, _ in chosen]
        return [ns * self.factor(look) for look, ns in chosen], found < len(chosen)

    def _calibrate(self, core: int) -> list[Reference]:
        self._go_to(core)
        return [self._work() for _ in range(_CALIBRATIONS)]

    def _move(self) -> None:
        self._next = (self._next + 1) % len(self._allowed)
        self._go_to(self._allowed[self._next])

    def _go_to(self, core: int) -> None:
        os.sched_setaffinity(0, {core})
        for _ in range(_WARM_UP):
            self._work()
