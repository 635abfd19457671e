"""Finds the smallest capacity, on a grid, with its answer confirmed on both sides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from allocmark.experiments.shared.ballast import STEP_BYTES
from allocmark.schema.flags import ABOVE_UNLIMITED_PEAK, NOT_MONOTONIC

MOST_RUNS = 24
_BEYOND_RUNS = 10
_ABOVE = (1, 4, 16)
"""Steps above an answer at which it is tried again: 0.5, 2 and 8 % of the live peak."""
_GUESSES = 2
"""Failed guesses in a row after which the range is halved instead."""

Attempt = Callable[[int], int | None]
"""Runs in a capacity: None where it completed, else the bytes that the failed request would have
needed beside what was still held (0 where that is not known)."""


@dataclass(frozen=True, slots=True)
class Found:
    """The answer: `capacity_bytes`, None where nothing completed.

    `resolution_bytes` is the distance to the nearest capacity below that failed, or that lies below
    the live peak. `tried` are all runs in order: capacity, and whether it completed.
    """

    capacity_bytes: int | None
    resolution_bytes: int
    tried: tuple[tuple[int, bool], ...]
    flags: tuple[str, ...] = ()


def finest_resolution(live_peak_bytes: int) -> int:
    """Return the resolution aimed at: 0.5 % of the live peak in whole steps, at least one."""
    return max(1, live_peak_bytes // 200 // STEP_BYTES) * STEP_BYTES


def smallest_capacity(
    attempt: Attempt,
    lower_bytes: int,
    upper_bytes: int,
    *,
    live_only: bool = False,
    more: Callable[[], bool] = lambda: True,
) -> Found:
    """Return the smallest capacity in which `attempt` completes, as far as any is tried above it.

    `lower_bytes` is the live peak, below which nothing completes; `upper_bytes` what was held
    without a limit. The grid is that of `finest_resolution`, and the search begins at the live
    peak. What a failed run was short of is the next guess: mostly it is the answer, or fails far
    later; else the range is halved, on a logarithmic scale, since a cache may hold many times
    what it can do with.

    A cache may fail in a capacity and complete in a smaller one. So three capacities above the
    answer are tried (`_ABOVE`): where one fails, the answer lies above that one.

    `live_only` is for an allocator that holds only what is live: the search begins at
    `upper_bytes` and a step below, and one step above is tried. Once `more` is false the search
    ends as soon as anything has completed, on a coarser answer.
    """
    search = _Search(attempt, lower_bytes, upper_bytes, more, from_above=live_only)
    fails, serves = search.between(-1, search.top + 1)
    if serves > search.top:
        return _above(search)
    for step in _ABOVE[:1] if live_only else _ABOVE:
        k = min(serves + step, max(search.top, serves + 1))
        if k not in search.known and more() and search.run(k) is not None:
            larger = [known for known, served in search.known.items() if served and known > k]
            higher = search.between(k, min(larger, default=max(k, search.top) + 1))
            if higher[1] not in search.known:
                beyond = _above(search)
                return beyond if beyond.capacity_bytes else search.found(fails, serves)
            fails, serves = higher
    return search.found(fails, serves)


class _Search:
    """The capacities that may be tried, from the live peak on, and how those tried did."""

    def __init__(
        self,
        attempt: Attempt,
        lower_bytes: int,
        upper_bytes: int,
        more: Callable[[], bool],
        *,
        from_above: bool,
    ) -> None:
        self._attempt, self._more = attempt, more
        self._base = lower_bytes // STEP_BYTES * STEP_BYTES
        self._resolution = finest_resolution(lower_bytes)
        self.top = self._cell(upper_bytes)
        self.known: dict[int, bool] = {}
        self._guess = self.top if from_above else 0

    def run(self, k: int) -> int | None:
        """Return what was short there, None where nothing was."""
        short_of = self._attempt(self._capacity(k))
        self.known[k] = short_of is None
        return short_of

    def between(self, fails: int, serves: int) -> tuple[int, int]:
        """Return the closest two cells of which the first fails and the second serves.

        That `top` serves is to be seen: beyond it lies what nothing is known of.
        """
        below, wrong = False, 0
        while serves - fails > 1 and len(self.known) < MOST_RUNS:
            if serves <= self.top and not self._more():
                break
            guessed = fails < self._guess < serves and wrong < _GUESSES
            k = self._guess if guessed else self._middle(fails, serves)
            short_of = self.run(k)
            if short_of is None:
                serves, wrong = k, 0
                below = guessed and not below  # A guess that serves is tried a step below, once.
                self._guess = k - 1 if below else fails
            else:
                fails, below = k, False
                self._guess = max(self._guess, self._cell(short_of))
                wrong = wrong + 1 if guessed else 0
        return fails, serves

    def found(self, fails: int, serves: int, *flags: str) -> Found:
        """Return the answer between two cells."""
        tried = tuple((self._capacity(k), served) for k, served in self.known.items())
        lowest = min(k for k, served in self.known.items() if served)
        if any(k > lowest and not served for k, served in self.known.items()):
            flags = (*flags, NOT_MONOTONIC)
        return Found(self._capacity(serves), (serves - fails) * self._resolution, tried, flags)

    def nothing(self) -> Found:
        """Return that nothing completed."""
        return Found(None, self._resolution, tuple((self._capacity(k), False) for k in self.known))

    def _capacity(self, k: int) -> int:
        return self._base + k * self._resolution

    def _cell(self, capacity_bytes: int) -> int:
        """Return the first cell that holds so much."""
        return max(0, -(-(capacity_bytes - self._base) // self._resolution))

    def _middle(self, fails: int, serves: int) -> int:
        """Return the cell in the middle of two on a logarithmic scale, neither of them."""
        low, high = (max(STEP_BYTES, self._capacity(k)) for k in (fails, serves))
        return min(max(self._cell(math.isqrt(low * high)), fails + 1), serves - 1)


def _above(search: _Search) -> Found:
    """Look above what was held without a limit, in growing strides, as far as runs reach."""
    fails, stride, serves = search.top, 1, None
    most = len(search.known) + _BEYOND_RUNS
    while len(search.known) < most and (serves is None or serves - fails > 1):
        k = fails + stride if serves is None else (fails + serves) // 2
        stride *= 2
        if search.run(k) is None:
            serves = k
        else:
            fails = k
    if serves is None:
        return search.nothing()
    if serves + 1 not in search.known:
        search.run(serves + 1)
    return search.found(fails, serves, ABOVE_UNLIMITED_PEAK)
