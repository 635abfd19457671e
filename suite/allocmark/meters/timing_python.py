"""The timing loop in Python: what a line of user code costs, interpreter included.

It answers the same questions as the native loop, for framework operations and for allocators
that have no C entry points.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from allocmark.meters.timing import Singles, Timed, draw_order

_CLOCK_READINGS = 10_000
_now = time.perf_counter_ns


def nothing(_: Any) -> None:
    """Stand in for an allocation, to measure the loop itself."""


class PythonLoop:
    """The loop over `make`, which returns a block or a tensor, and `release`.

    Without `release` the last reference is dropped, as a user does with a tensor. `wait` waits
    until the device is done. What `make` raises passes through.
    """

    def __init__(
        self,
        make: Callable[[int], Any],
        release: Callable[[Any], object] | None,
        wait: Callable[[], object],
        meter: str,
    ) -> None:
        self._make, self._release, self._wait = make, release, wait
        self.meter = meter
        self._held: list[Any] = []

    def pairs(self, size_bytes: int, count: int) -> float:
        make, release = self._make, self._release
        if release is None:
            begin = _now()
            for _ in repeat(None, count):
                block = make(size_bytes)
                del block
            return (_now() - begin) / count
        begin = _now()
        for _ in repeat(None, count):
            release(make(size_bytes))
        return (_now() - begin) / count

    def many(self, size_bytes: int, count: int) -> tuple[float, float]:
        make, release = self._make, self._release
        order = draw_order(count).tolist()
        held: list[Any] = [None] * count
        try:
            begin = _now()
            for i in order:
                held[i] = make(size_bytes)
            alloc_ns = _now() - begin
        except Exception:
            if release is not None:
                for block in held:
                    if block is not None:
                        release(block)
            raise
        begin = _now()
        if release is None:
            for i in order:
                held[i] = None
        else:
            for i in order:
                release(held[i])
        free_ns = _now() - begin
        return alloc_ns / count, free_ns / count

    def singles(self, size_bytes: int, count: int) -> Singles:
        pair, alloc, free = ([0] * count for _ in Singles._fields)
        make, release = self._make, self._release
        held: Any
        for i in range(count):
            begin = _now()
            held = make(size_bytes)
            if release is not None:
                release(held)
            held = None
            pair[i] = _now() - begin
        for i in range(count):
            begin = _now()
            held = make(size_bytes)
            middle = _now()
            if release is not None:
                release(held)
            held = None
            end = _now()
            alloc[i] = middle - begin
            free[i] = end - middle
        return Singles(*(np.array(readings, dtype=np.int64) for readings in (pair, alloc, free)))

    def alloc(self, size_bytes: int) -> Timed:
        make, wait = self._make, self._wait
        begin = _now()
        block = make(size_bytes)
        host = _now() - begin
        wait()
        complete = _now() - begin
        self._held = [block]
        return Timed(host, complete)

    def free(self, wait: bool = True) -> Timed:
        held, release = self._held, self._release
        until: Callable[[], object] = self._wait if wait else self._held.clear
        if release is None:
            begin = _now()
            held.clear()
        else:
            begin = _now()
            release(held.pop())
        host = _now() - begin
        until()
        return Timed(host, _now() - begin)

    def pair(self, size_bytes: int) -> Timed:
        make, release, wait = self._make, self._release, self._wait
        begin = _now()
        held = make(size_bytes)
        if release is not None:
            release(held)
        del held
        host = _now() - begin
        wait()
        return Timed(host, _now() - begin)

    def clock_ns(self) -> NDArray[np.int64]:
        readings = [0] * _CLOCK_READINGS
        for i in range(_CLOCK_READINGS):
            begin = _now()
            readings[i] = _now() - begin
        return np.array(readings, dtype=np.int64)
