"""The predicted smallest GPU memory tried for real: a program on a GPU that a ballast has filled.

Tries come one after another, for each needs the whole GPU; the next processes import their
libraries meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from allocmark.allocators.base import Allocator
from allocmark.experiments.shared.ballast import Ballast
from allocmark.system.errors import AllocmarkError, NotMeasurableError
from allocmark.tools.accuracy.program_runs import Outcome, ProgramProcess
from allocmark.tools.accuracy.programs import Program

ABOVE_SHARE = 0.01
"""So much above the predicted smallest memory a program has to end."""
BELOW_SHARE = 0.03
"""So much below it, and below the resolution of its search, it has to fail."""
_AHEAD = 4
"""Processes that import while one is tried."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a replay says: the smallest memory of a GPU, and the step of the search for it.

    Both in bytes; the context and libraries are in the first.
    """

    smallest_bytes: int
    resolution_bytes: int

    @property
    def above_bytes(self) -> int:
        """The memory in which the program has to end."""
        return int(self.smallest_bytes * (1 + ABOVE_SHARE))

    @property
    def below_bytes(self) -> int:
        """The memory in which it has to fail."""
        return int((self.smallest_bytes - self.resolution_bytes) * (1 - BELOW_SHARE))


@dataclass(frozen=True, slots=True)
class Wanted:
    """One try: a program under a setting in so much free memory."""

    program: Program
    allocator: Allocator
    bytes: int


@dataclass(frozen=True, slots=True)
class Tried:
    """What a try came to: the bytes that were really free before it, and how it ended.

    `reason` is why it says nothing: too little was free, or it failed for another cause.
    """

    free_bytes: int = 0
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def completed(self) -> bool | None:
        """Whether it came to its end; None where it says nothing."""
        return None if self.reason or self.outcome is None else not self.outcome.error


def tries(wanted: Sequence[Wanted], ballast: Ballast, limit_s: float) -> Generator[Tried]:
    """Carry the tries out, in their order; a program may take `limit_s` for one."""
    starting: deque[ProgramProcess | AllocmarkError] = deque()
    left = iter(wanted)

    def start() -> None:
        for each in left:
            try:
                starting.append(ProgramProcess(each.program, each.allocator, limit_s))
            except AllocmarkError as error:
                starting.append(error)
            return

    try:
        for _ in range(_AHEAD + 1):
            start()
        for each in wanted:
            process = starting.popleft()
            start()
            if isinstance(process, AllocmarkError):
                yield Tried(reason=str(process))
                continue
            with closing(process):
                yield _tried(process, each.bytes, ballast)
    finally:
        ballast.release()
        for process in starting:
            with suppress(AttributeError):  # One that could not be started.
                process.close()  # type: ignore[union-attr]


def _tried(process: ProgramProcess, wanted_bytes: int, ballast: Ballast) -> Tried:
    try:
        process.answer()
        free = ballast.leave(wanted_bytes)
        outcome = process.run()
    except NotMeasurableError as error:
        return Tried(reason=str(error))
    reason = "" if outcome.short or not outcome.error else outcome.error
    return Tried(free, outcome, reason)
