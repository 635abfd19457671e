"""What the seeded workloads are made with: draws that never change, and a trace under construction.

numpy promises the bits of its generators but not the methods built on them, so every draw here
is made from plain uniform doubles by arithmetic of our own: the same seed gives the same trace
under every numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from allocmark.system.errors import AllocmarkError
from allocmark.system.message import Text
from allocmark.workloads.event_trace import Op, Trace


class Draws:
    """Random numbers from one seed."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def unit(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        return float(self._generator.random())

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to `limit` - 1."""
        return int(self.unit() * limit)

    def chance(self, share: float) -> bool:
        """Return yes in about `share` of the calls."""
        return self.unit() < share

    def log_uniform(self, low: float, high: float) -> int:
        """Return a whole number from `low` to `high`, each factor of two equally often."""
        return round(low * float((high / low) ** self.unit()))


class Builder:
    """A trace on one stream while it is made; keeps what is alive in the order of allocation."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, int]] = []
        self._live: dict[int, int] = {}
        self._blocks = 0
        self.live_bytes = 0

    @property
    def live(self) -> list[int]:
        """The blocks alive, oldest first."""
        return list(self._live)

    def alloc(self, size_bytes: int) -> int:
        """Allocate a block of at least one byte and return its id."""
        size_bytes = max(1, size_bytes)
        block = self._blocks
        self._blocks += 1
        self._live[block] = size_bytes
        self.live_bytes += size_bytes
        self._events.append((Op.ALLOC, block, size_bytes))
        return block

    def free(self, *blocks: int) -> None:
        """Free blocks in the order given."""
        for block in blocks:
            self.live_bytes -= self._live.pop(block)
            self._events.append((Op.FREE, block, 0))

    def pass_through(self, size_bytes: int) -> None:
        """Allocate a temporary and free it at once."""
        self.free(self.alloc(size_bytes))

    def free_oldest_until(self, room_bytes: int, budget_bytes: int) -> None:
        """Free the oldest blocks until `room_bytes` more stay within the budget."""
        while self._live and self.live_bytes + room_bytes > budget_bytes:
            self.free(next(iter(self._live)))

    def build(self, name: str, origin: Mapping[str, str | int | float]) -> Trace:
        """Free what is alive, oldest first, and return the trace."""
        self.free(*self.live)
        op, block, size = np.array(self._events, dtype=np.int64).reshape(-1, 3).T
        stream = np.zeros(len(op), dtype=np.uint8)
        return Trace(name, op.astype(np.uint8), block.copy(), size.copy(), stream, origin)


Maker = Callable[[Draws, float], Builder]
LAST = 100


@dataclass(frozen=True, slots=True)
class Workload:
    """A seeded workload; `make` builds it from draws and a scale, which 1 leaves as it is."""

    name: str
    order: int
    """Its place in lists, tables and axes: lower ones first."""
    description: Text
    """What it stands for, in half a sentence."""
    make: Maker
    tracked: bool
    """Whether asv has series of it: asv draws 1,500 at most."""


WORKLOADS: dict[str, Workload] = {}
"""Those of the files that have been imported."""


def workload(
    name: str, description: Text, order: int = LAST, *, tracked: bool = False
) -> Callable[[Maker], Maker]:
    """Let a function be the seeded workload of that name. Raises `AllocmarkError` for one taken."""

    def register(make: Maker) -> Maker:
        if name in WORKLOADS:
            raise AllocmarkError(f"two workloads are named {name!r}: rename yours")
        WORKLOADS[name] = Workload(name, order, description, make, tracked)
        return make

    return register
