"""A workload as data: a sequence of allocation events in four equally long arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from allocmark.allocators.base import PoolKind
from allocmark.system.errors import AllocmarkError


class Op(IntEnum):
    """What happens at an event."""

    ALLOC = 0
    """`block` of `size` bytes is allocated on `stream`."""
    FREE = 1
    """`block` is given back."""
    RECORD_STREAM = 2
    """`block` is used on `stream` too: a later free must wait for it."""
    HANDOFF = 3
    """`stream` waits for the stream on which `block` was allocated, then uses the block."""
    TRIM = 4
    """The program gives cached memory back (`empty_cache`)."""
    POOL_BEGIN = 5
    """From here on allocations go to the private pool numbered `size`."""
    POOL_END = 6
    """From here on they go to the common pool again."""
    POOL_RELEASE = 7
    """The owner of the private pool numbered `size` lets go of it."""


WITHOUT_BLOCK = (Op.TRIM, Op.POOL_BEGIN, Op.POOL_END, Op.POOL_RELEASE)
NAMES_POOL = (Op.POOL_BEGIN, Op.POOL_RELEASE)


@dataclass(frozen=True)
class Trace:
    """The events of one workload, in order.

    `op` uint8, `block` int64 (dense ids from 0, in the order of allocation; -1 for those of
    `WITHOUT_BLOCK`), `size` int64 (requested bytes at ALLOC, the pool's number for those of
    `NAMES_POOL`, 0 elsewhere), `stream` uint8. Private pools are numbered from 1, the common one
    is 0.
    """

    name: str
    op: NDArray[np.uint8]
    block: NDArray[np.int64]
    size: NDArray[np.int64]
    stream: NDArray[np.uint8]
    origin: Mapping[str, str | int | float] = field(default_factory=dict)
    """How it was made: seed and scale, or the program, GPU and framework it was recorded from."""
    pools: Sequence[PoolKind] = ()
    """The kind of each private pool, the first one's first."""

    def __post_init__(self) -> None:
        if not len(self.op) == len(self.block) == len(self.size) == len(self.stream):
            raise AllocmarkError(f"trace {self.name} is damaged: its columns differ in length")

    def __len__(self) -> int:
        return len(self.op)

    @property
    def live_bytes(self) -> NDArray[np.int64]:
        """Requested bytes alive after each event."""
        sizes = np.zeros(int(self.block.max(initial=-1)) + 1, dtype=np.int64)
        allocs = self.op == Op.ALLOC
        sizes[self.block[allocs]] = self.size[allocs]
        change = np.where(allocs, self.size, 0)
        frees = self.op == Op.FREE
        change[frees] = -sizes[self.block[frees]]
        return np.cumsum(change)

    @property
    def peak_requested_bytes(self) -> int:
        """The most requested bytes alive at once: no allocator can do with less."""
        return int(self.live_bytes.max(initial=0))

    @property
    def streams(self) -> int:
        """How many streams the events name."""
        return int(self.stream.max(initial=0)) + 1

    @cached_property
    def pool_of_block(self) -> NDArray[np.int64]:
        """The number of the pool that each block was allocated in, 0 for the common one."""
        routed = np.flatnonzero((self.op == Op.POOL_BEGIN) | (self.op == Op.POOL_END))
        pool = np.append(0, np.where(self.op[routed] == Op.POOL_BEGIN, self.size[routed], 0))
        allocs = np.flatnonzero(self.op == Op.ALLOC)
        found = np.zeros(int(self.block.max(initial=-1)) + 1, np.int64)
        found[self.block[allocs]] = pool[np.searchsorted(routed, allocs)]
        return found

    def released_pools(self, event: int) -> set[int]:
        """Return the numbers of the private pools that are released up to an event."""
        before = self.op[: event + 1] == Op.POOL_RELEASE
        return set(self.size[: event + 1][before].tolist())

    def validate(self) -> None:
        """Raise `AllocmarkError` for a block or a pool that is used as none can be.

        A block is allocated once and freed at most once; routing to a pool begins before it ends,
        and a released pool is not used again.
        """
        self._validate_pools()
        allocs, frees = self.block[self.op == Op.ALLOC], self.block[self.op == Op.FREE]
        first_use = {int(b): i for i, b in reversed(list(enumerate(self.block))) if b >= 0}
        alive: set[int] = set()
        for i, (op, block) in enumerate(zip(self.op.tolist(), self.block.tolist(), strict=True)):
            if op == Op.ALLOC and first_use[block] == i:
                alive.add(block)
            elif op == Op.FREE and block in alive:
                alive.remove(block)
            elif op in WITHOUT_BLOCK or (op in (Op.RECORD_STREAM, Op.HANDOFF) and block in alive):
                continue
            else:
                raise AllocmarkError(
                    f"trace {self.name} is damaged at event {i}: {Op(op).name} of block {block}"
                )
        if len(set(allocs.tolist())) != len(allocs) or len(set(frees.tolist())) != len(frees):
            raise AllocmarkError(f"trace {self.name} is damaged: a block is used twice")

    def _validate_pools(self) -> None:
        routed = 0
        released: set[int] = set()
        for i in np.flatnonzero(self.op >= Op.POOL_BEGIN).tolist():
            op, pool = Op(int(self.op[i])), int(self.size[i])
            named = 0 < pool <= len(self.pools) and pool not in released
            if op == Op.POOL_BEGIN and named and not routed:
                routed = pool
            elif op == Op.POOL_END and routed:
                routed = 0
            elif op == Op.POOL_RELEASE and named and pool != routed:
                released.add(pool)
            else:
                raise AllocmarkError(
                    f"trace {self.name} is damaged at event {i}: {op.name} of pool {pool}"
                )
