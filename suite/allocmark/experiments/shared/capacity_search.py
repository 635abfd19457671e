"""Bisection for the smallest capacity, on a grid, with its answer confirmed on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from allocmark.experiments.shared.ballast import STEP_BYTES
from allocmark.schema.flags import ABOVE_UNLIMITED_PEAK, NOT_MONOTONIC

STEPS = 8
"""Most halvings of one search."""
CONFIRMING_RUNS = 2


@dataclass(frozen=True, slots=True)
class Found:
    """The answer: `capacity_bytes` on a grid of `resolution_bytes`, None where nothing completed.

    `tried` are all runs in order: capacity, and whether it completed.
    """

    capacity_bytes: int | None
    resolution_bytes: int
    tried: tuple[tuple[int, bool], ...]
    flags: tuple[str, ...] = ()


def finest_resolution(live_peak_bytes: int) -> int:
    """Return the resolution aimed at: 0.5 % of the live peak in whole steps, at least one."""
    return max(1, live_peak_bytes // 200 // STEP_BYTES) * STEP_BYTES


def smallest_capacity(
    completes: Callable[[int], bool],
    lower_bytes: int,
    upper_bytes: int,
    steps: int = STEPS,
    *,
    upper_first: bool = False,
) -> Found:
    """Return the smallest capacity at which `completes` is true.

    `lower_bytes` is the live peak, below which nothing completes; `upper_bytes` what was held
    without a limit. The grid is as fine as `steps` halvings allow, but not finer than
    `finest_resolution`. At most ``steps + 3`` runs are made: the search, and one each a step above
    and below its answer (none below the live peak, which is known to fail).

    `upper_first` begins at `upper_bytes` and a step below: for an allocator that holds only what
    is live, which can hardly do with less, so that three runs are mostly the whole search. Where
    it can, two more runs are made than without.
    """
    base = lower_bytes // STEP_BYTES * STEP_BYTES
    span = max(0, upper_bytes - base)
    cells = 2**steps - 1
    resolution = max(finest_resolution(lower_bytes), -(-span // cells // STEP_BYTES) * STEP_BYTES)
    top = -(-span // resolution)
    tried: list[tuple[int, bool]] = []

    def run(k: int) -> bool:
        capacity = base + k * resolution
        tried.append((capacity, completes(capacity)))
        return tried[-1][1]

    def above() -> Found:
        return _above(run, tried, base, resolution, top, steps + CONFIRMING_RUNS)

    fails, serves = -1, top
    if upper_first:
        if not run(top):
            return above()
        if top > 0:
            fails, serves = (-1, top - 1) if run(top - 1) else (top - 1, top)
    while serves - fails > 1:
        middle = (fails + serves) // 2
        if run(middle):
            serves = middle
        else:
            fails = middle
    if serves == top and not upper_first and not run(top):
        return above()
    flags: tuple[str, ...] = ()
    if not run(serves + 1):
        flags = (NOT_MONOTONIC,)
    # At the top, the step below is the search's last run.
    if 0 < serves < top and run(serves - 1):
        serves, flags = serves - 1, (NOT_MONOTONIC,)
    return Found(base + serves * resolution, resolution, tuple(tried), flags)


def _above(
    run: Callable[[int], bool],
    tried: list[tuple[int, bool]],
    base: int,
    resolution: int,
    fails: int,
    runs: int,
) -> Found:
    """Look above what was held without a limit, in growing strides, as far as `runs` reach."""
    stride, serves = 1, None
    while len(tried) < runs:
        if serves is None:
            k = fails + stride
            stride *= 2
        elif serves - fails > 1:
            k = (fails + serves) // 2
        else:
            break
        if run(k):
            serves = k
        else:
            fails = k
    if serves is None:
        return Found(None, resolution, tuple(tried))
    flags = (ABOVE_UNLIMITED_PEAK,) if run(serves + 1) else (ABOVE_UNLIMITED_PEAK, NOT_MONOTONIC)
    capacity = base + serves * resolution
    return Found(capacity, (serves - fails) * resolution, tuple(tried), flags)
