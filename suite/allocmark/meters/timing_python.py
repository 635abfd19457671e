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

from allocmark.allocators.base import PythonCalls
from allocmark.meters.timing import Singles, Timed, draw_order

_Calls = tuple[
    Callable[..., Any], tuple[object, ...], Callable[..., object] | None, tuple[int, ...]
]
_CLOCK_READINGS = 10_000
_now = time.perf_counter_ns


def nothing(_: Any) -> None:
    """Stand in for an allocation, to measure the loop itself."""


class PythonLoop:
    """The loop over calls that return a block or a tensor and free it.

    Without a release the last reference is dropped, as a user does with a tensor. `wait` waits
    until the device is done. What the calls raise passes through.
    """

    def __init__(self, calls: PythonCalls, wait: Callable[[], object], meter: str) -> None:
        self.calls, self._wait = calls, wait
        self.meter = meter
        self._held: list[Any] = []
        self._size: tuple[int, ...] = ()

    def pairs(self, size_bytes: int, count: int) -> float:
        make, arguments, release, size = self._of(size_bytes)
        if release is None:
            begin = _now()
            for _ in repeat(None, count):
                block = make(*arguments)
                del block
            return (_now() - begin) / count
        begin = _now()
        for _ in repeat(None, count):
            release(make(*arguments), *size)
        return (_now() - begin) / count

    def many(self, size_bytes: int, count: int) -> tuple[float, float]:
        make, arguments, release, size = self._of(size_bytes)
        order = draw_order(count).tolist()
        held: list[Any] = [None] * count
        try:
            begin = _now()
            for i in order:
                held[i] = make(*arguments)
            alloc_ns = _now() - begin
        except Exception:
            if release is not None:
                for block in held:
                    if block is not None:
                        release(block, *size)
            raise
        begin = _now()
        if release is None:
            for i in order:
                held[i] = None
        else:
            for i in order:
                release(held[i], *size)
        free_ns = _now() - begin
        return alloc_ns / count, free_ns / count

    def singles(self, size_bytes: int, count: int) -> Singles:
        pair, alloc, free = ([0] * count for _ in Singles._fields)
        make, arguments, release, size = self._of(size_bytes)
        held: Any
        for i in range(count):
            begin = _now()
            held = make(*arguments)
            if release is not None:
                release(held, *size)
            held = None
            pair[i] = _now() - begin
        for i in range(count):
            begin = _now()
            held = make(*arguments)
            middle = _now()
            if release is not None:
                release(held, *size)
            held = None
            end = _now()
            alloc[i] = middle - begin
            free[i] = end - middle
        return Singles(*(np.array(readings, dtype=np.int64) for readings in (pair, alloc, free)))

    def alloc(self, size_bytes: int) -> Timed:
        make, arguments, _, self._size = self._of(size_bytes)
        wait = self._wait
        begin = _now()
        block = make(*arguments)
        host = _now() - begin
        wait()
        complete = _now() - begin
        self._held = [block]
        return Timed(host, complete)

    def free(self, wait: bool = True) -> Timed:
        held, release, size = self._held, self.calls.release, self._size
        until: Callable[[], object] = self._wait if wait else self._held.clear
        if release is None:
            begin = _now()
            held.clear()
        else:
            begin = _now()
            release(held.pop(), *size)
        host = _now() - begin
        until()
        return Timed(host, _now() - begin)

    def pair(self, size_bytes: int) -> Timed:
        make, arguments, release, size = self._of(size_bytes)
        wait = self._wait
        begin = _now()
        held = make(*arguments)
        if release is not None:
            release(held, *size)
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

    def _of(self, size_bytes: int) -> _Calls:
        """Return make and its arguments, release and what it takes behind the block."""
        calls = self.calls
        size = (size_bytes,) if calls.sized else ()
        return calls.make, (size_bytes, *calls.extra), calls.release, size
