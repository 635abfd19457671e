"""The timing loops checked: the same pair read by a bare loop that shares no code with them.

Native loop and bare loop take turns batch by batch in one process, so that drift of the machine
meets both. For calls in Python the bare loop is the standard library's timeit.
"""

from __future__ import annotations

import ctypes
import timeit
from collections.abc import Callable
from ctypes import CFUNCTYPE, c_double, c_int, c_uint64, c_void_p
from functools import partial
from typing import Any, Protocol

from allocmark.allocators.base import NativeCalls, PythonCalls
from allocmark.meters.timing import SOURCES
from allocmark.system.compiler import shared_library
from allocmark.system.errors import NotMeasurableError

_OWN: Any = CFUNCTYPE(c_double, c_uint64, c_int)
"""A bare loop of the library's own, see `NativeCalls.bare`."""


class BareLoop(Protocol):
    """A loop over the library's own calls and nothing else."""

    meter: str

    def pairs(self, size_bytes: int, count: int) -> float:
        """Return the mean nanoseconds of an alloc-and-free pair over one batch.

        Raises `NotMeasurableError`, or what the library raises, where one cannot be had.
        """


class NativeBareLoop:
    """The library's own bare loop, or one in C++ over its entry points.

    Raises `NotMeasurableError` where it cannot be built.
    """

    meter = "bare loop in C++ (std::chrono)"

    def __init__(self, calls: NativeCalls) -> None:
        if calls.bare:
            self._pairs: Callable[[int, int], float] = _OWN(calls.bare)
            return
        path = shared_library("crosscheck", [SOURCES / "crosscheck.cpp"], language="c++")
        loop = getattr(ctypes.CDLL(str(path)), f"allocmark_pairs_{calls.shape.replace('-', '_')}")
        loop.argtypes, loop.restype = (c_void_p, c_void_p, c_uint64, c_int), c_double
        self._pairs = partial(loop, calls.alloc, calls.free)

    def pairs(self, size_bytes: int, count: int) -> float:
        """Return the mean nanoseconds of an alloc-and-free pair over one batch."""
        value = self._pairs(size_bytes, count)
        if value < 0:
            raise NotMeasurableError(f"the bare loop could not get {size_bytes} bytes")
        return value


class PythonBareLoop:
    """One statement over the library's own callables, timed by timeit."""

    meter = "timeit over the same calls"

    def __init__(self, calls: PythonCalls) -> None:
        extra = {f"extra{i}": value for i, value in enumerate(calls.extra)}
        made = f"make({', '.join(('size', *extra))})"
        tail = ", size" if calls.sized else ""
        self._statement = made if calls.release is None else f"release({made}{tail})"
        self._names = {"make": calls.make, "release": calls.release, **extra}
        self._timers: dict[int, timeit.Timer] = {}

    def pairs(self, size_bytes: int, count: int) -> float:
        """Return the mean nanoseconds of an alloc-and-free pair over one batch."""
        timer = self._timers.get(size_bytes)
        if timer is None:
            names = {**self._names, "size": size_bytes}
            timer = self._timers[size_bytes] = timeit.Timer(self._statement, globals=names)
        return timer.timeit(count) / count * 1e9
