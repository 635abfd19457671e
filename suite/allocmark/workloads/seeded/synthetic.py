"""Seeded workloads that isolate one trait each: mix of sizes, order, thresholds, lifetimes.

They are constructions, not programs: use them to see what a trait does to an allocator, never to
say how much memory a real program will take.
"""

from __future__ import annotations

from allocmark.system.message import Message
from allocmark.system.units import GIB, KIB, MIB
from allocmark.workloads.building import Builder, Draws, workload

BOUNDARIES = (512, 1 * MIB, 2 * MIB, 10 * MIB, 20 * MIB)
"""Sizes at which allocators change their mind.

512 B is torch's rounding, 1 MiB its limit of small requests, 2 MiB its small segment and the
driver's page, 10 MiB its limit of shared large segments, 20 MiB the size of those
(c10/cuda/CUDACachingAllocator: kMinBlockSize, kSmallSize, kSmallBuffer, kMinLargeAlloc,
kLargeBuffer). TensorFlow's bins and growth steps double through the same range.
"""
_OFFSETS = (-512, -1, 0, 1, 512)
_SMALL_BLOCKS = 400
"""How many of the small blocks of `bimodal` are alive at once."""


@workload(
    "uniform",
    Message("sizes from 512 B to 64 MiB without any pattern, random lifetimes"),
    0,
    tracked=True,
)
def uniform(draws: Draws, scale: float) -> Builder:
    """Build sizes spread evenly over all orders of magnitude, a steady live set, random lifetimes.

    Stands for a program without any pattern. Shape: log-uniform from 512 B to 64 MiB x scale,
    1.5 GiB x scale alive, a random block makes room for the next: the steady state that
    allocator studies since Knuth (The Art of Computer Programming 1, 2.5) start from. Not for
    claims about training or serving, whose sizes repeat.
    """
    trace = Builder()
    budget = round(1.5 * GIB * scale)
    live: list[int] = []
    for _ in range(1600):
        size = draws.log_uniform(512, 64 * MIB * scale)
        while live and trace.live_bytes + size > budget:
            _free_random(trace, live, draws)
        live.append(trace.alloc(size))
    return trace


@workload("bimodal", Message("many small blocks and a few huge ones"), 1, tracked=True)
def bimodal(draws: Draws, scale: float) -> Builder:
    """Build many small blocks and a few huge ones, both coming and going.

    Stands for a program of large tensors with its scalars, indices and masks between them.
    Shape: 95 % from 512 B to 256 KiB (what is small does not grow with the GPU, so these do not
    scale), 5 % from 32 to 384 MiB x scale, of which up to 2 GiB x scale stay alive. Not for the
    cost of medium sizes: there are none.
    """
    trace = Builder()
    budget = round(2 * GIB * scale)
    small: list[int] = []
    huge: list[int] = []
    for _ in range(2000):
        if draws.chance(0.05):
            size = draws.log_uniform(32 * MIB * scale, 384 * MIB * scale)
            while huge and trace.live_bytes + size > budget:
                _free_random(trace, huge, draws)
            huge.append(trace.alloc(size))
        else:
            if len(small) >= _SMALL_BLOCKS:
                _free_random(trace, small, draws)
            small.append(trace.alloc(draws.log_uniform(512, 256 * KIB)))
    return trace


@workload(
    "ascending",
    Message(
        "requests that grow, as when batches are sorted by length: nothing that was freed is "
        "large enough for the next one"
    ),
    2,
    tracked=True,
)
def ascending(draws: Draws, scale: float) -> Builder:
    """Build requests that grow: nothing freed before is large enough for the next.

    Stands for sequences or images sorted by length, and for buffers that grow. Shape: four rounds
    of 400 log-uniform sizes from 64 KiB to 192 MiB x scale in rising order; the oldest go when
    1.5 GiB x scale are alive, and all at the end of a round. The worst order for a cache, so not
    for typical cost; `descending` is the same sizes the other way round.
    """
    return _ordered(draws, scale, falling=False)


@workload(
    "descending",
    Message("the same sizes in falling order: each fits into what larger ones left"),
    3,
    tracked=True,
)
def descending(draws: Draws, scale: float) -> Builder:
    """Build requests that shrink: every one fits into what the larger ones left.

    Stands for batches sorted from the longest down, the usual advice against fragmentation.
    Shape: the sizes of `ascending` in each round, in falling order, with the same budget. Not for
    typical cost: compare it with `ascending` to see what order alone does.
    """
    return _ordered(draws, scale, falling=True)


@workload(
    "boundary",
    Message("sizes just below, at and above the thresholds of allocators"),
    4,
    tracked=True,
)
def boundary(draws: Draws, scale: float) -> Builder:
    """Build sizes one byte and one rounding step below, at and above the allocators' thresholds.

    Stands for tensors that just miss a size class. Shape: `BOUNDARIES` plus or minus 0, 1 and
    512 B; a random block makes room when 1.5 GiB x scale are alive. The sizes must stay where
    they are, so `scale` sets how many blocks live, and with them the number of events. Not for
    averages: real sizes seldom sit on a threshold.
    """
    trace = Builder()
    budget = round(1.5 * GIB * scale)
    live: list[int] = []
    # A mean block is 6.6 MiB: enough to fill the budget, then as many again to churn.
    for _ in range(1200 + round(240 * scale)):
        base = BOUNDARIES[draws.below(len(BOUNDARIES))]
        size = max(1, base + _OFFSETS[draws.below(len(_OFFSETS))])
        while live and trace.live_bytes + size > budget:
            _free_random(trace, live, draws)
        live.append(trace.alloc(size))
    return trace


@workload(
    "pinned",
    Message("large blocks that come and go, small ones that stay between them"),
    5,
    tracked=True,
)
def pinned(draws: Draws, scale: float) -> Builder:
    """Build large blocks that come and go, and small ones left standing between them.

    Stands for caches, statistics and optimizer state made in the midst of a step: each pins the
    segment it landed in (pytorch issue 35901). Shape: 60 cycles of 14 large blocks of 8 to
    192 MiB x scale (at most 2 GiB x scale of them alive); half of them are freed, six small
    blocks take the holes (three up to 1 MiB, three of 1 to 4 MiB: torch keeps the former in
    segments of their own; they do not scale), then the other half goes. One small block in three
    lives to the end, the rest for one cycle. Not for a typical share of waste: real programs pin
    less.
    """
    trace = Builder()
    budget = round(2 * GIB * scale)
    passing: list[int] = []
    for _ in range(60):
        large: list[int] = []
        small_bytes = trace.live_bytes
        for _ in range(14):
            size = draws.log_uniform(8 * MIB * scale, 192 * MIB * scale)
            if trace.live_bytes - small_bytes + size <= budget:
                large.append(trace.alloc(size))
        for _ in range(len(large) // 2):
            _free_random(trace, large, draws)
        trace.free(*passing)
        passing = []
        for staying in (True, False, False):
            for low, high in ((1 * MIB, 4 * MIB), (1 * KIB, 1 * MIB)):
                block = trace.alloc(draws.log_uniform(low, high))
                if not staying:
                    passing.append(block)
        trace.free(*large)
    return trace


def _free_random(trace: Builder, blocks: list[int], draws: Draws) -> None:
    at = draws.below(len(blocks))
    blocks[at], blocks[-1] = blocks[-1], blocks[at]
    trace.free(blocks.pop())


def _ordered(draws: Draws, scale: float, *, falling: bool) -> Builder:
    trace = Builder()
    budget = round(1.5 * GIB * scale)
    for _ in range(4):
        sizes = [draws.log_uniform(64 * KIB * scale, 192 * MIB * scale) for _ in range(400)]
        for size in sorted(sizes, reverse=falling):
            trace.free_oldest_until(size, budget)
            trace.alloc(size)
        trace.free(*trace.live)
    return trace
