"""The native timing loop: an allocator's C entry points, called and timed without an interpreter.

The loop itself is ``native/timing.c``. What it costs is read by the same loop over functions that
do nothing (`NativeLoop.empty`) and stored beside the readings; nothing is subtracted from them.
"""

from __future__ import annotations

import ctypes
import math
import random
import time
from ctypes import POINTER, byref, c_int32, c_int64, c_size_t, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrik

from allocmark.allocators.base import NativeCalls
from allocmark.schema.intervals import CONFIDENCE
from allocmark.schema.metrics.latency import NATIVE_METER
from allocmark.system.compiler import shared_library
from allocmark.system.errors import AllocmarkError, DeviceOutOfMemoryError

SOURCES = Path(__file__).parent / "native"
ORDER_SEED = 20260101

SHAPES = ("runtime", "runtime-async", "aoti", "sized")
"""Signatures of entry points, in the order of their numbers in C; see `NativeCalls`."""
_EMPTY = {
    "runtime": ("am_empty_runtime_alloc", "am_empty_free"),
    "runtime-async": ("am_empty_runtime_alloc_async", "am_empty_runtime_free_async"),
    "aoti": ("am_empty_aoti_alloc", "am_empty_free"),
    "sized": ("am_empty_runtime_alloc", "am_empty_sized_free"),
}
# The first is not slewed by NTP, but some virtual machines serve it by a system call.
_CLOCKS = {"CLOCK_MONOTONIC_RAW": time.CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC": time.CLOCK_MONOTONIC}
_RAW_MAY_COST = 1.5
_RUNTIME_OUT_OF_MEMORY = 2
_CLOCK_READINGS = 10_000


class CallFailedError(AllocmarkError):
    """A timed call returned an error that does not say the memory ran out."""


class Timed(NamedTuple):
    """One call: nanoseconds until it returned and until the stream was synchronized after it."""

    host_ns: float
    complete_ns: float


class Singles(NamedTuple):
    """Nanoseconds of calls timed one by one, each reading with the clock's own cost in it."""

    pair_ns: NDArray[np.int64]
    alloc_ns: NDArray[np.int64]
    free_ns: NDArray[np.int64]


class Loop(Protocol):
    """Calls and times one way to get memory; sizes in bytes, times in nanoseconds.

    Raises `DeviceOutOfMemoryError` where a request cannot be served, `CallFailedError` where a
    call fails otherwise.
    """

    meter: str

    def pairs(self, size_bytes: int, count: int) -> float:
        """Return the mean time of an alloc-and-free pair over one batch."""

    def many(self, size_bytes: int, count: int) -> tuple[float, float]:
        """Return the mean times of an allocation and of a free, `count` blocks being live."""

    def singles(self, size_bytes: int, count: int) -> Singles:
        """Return `count` pairs timed one by one, and as many with alloc and free apart."""

    def alloc(self, size_bytes: int) -> Timed:
        """Time one allocation; the block is kept for `free`."""

    def free(self, wait: bool = True) -> Timed:
        """Time the free of the block that `alloc` made; without `wait` only its return."""

    def pair(self, size_bytes: int) -> Timed:
        """Time one pair, synchronized once, after both."""

    def clock_ns(self) -> NDArray[np.int64]:
        """Return differences of two readings of the clock with nothing in between."""


class _Calls(ctypes.Structure):
    _fields_ = (
        ("shape", c_int32),
        ("clock", c_int32),
        ("alloc", c_void_p),
        ("free", c_void_p),
        ("synchronize", c_void_p),
        ("stream", c_void_p),
    )


class _Entry(ctypes.Structure):
    _fields_ = (
        ("set_device", c_void_p),
        ("create_guard", c_void_p),
        ("delete_guard", c_void_p),
        ("device", c_int32),
    )


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    """What each thread calls before its loop, as addresses; 0 where there is nothing to call.

    `set_device` is ``int (int device)``; `create_guard` is ``int (void *stream, int32_t device,
    void **guard)`` and makes a stream current where the allocator has no stream argument.
    """

    device: int
    set_device: int = 0
    create_guard: int = 0
    delete_guard: int = 0


@cache
def library() -> ctypes.CDLL:
    """Return the built loop. Raises `NotMeasurableError` where it cannot be built."""
    sources = [SOURCES / "timing.c", SOURCES / "reference.c"]
    path = shared_library("timing", sources, flags=["-pthread"])
    loaded = ctypes.CDLL(str(path))
    pointer = POINTER(c_int64)
    calls = POINTER(_Calls)
    loaded.am_clock.argtypes = (c_int32, c_int64, c_void_p)
    loaded.am_clock.restype = None
    loaded.am_pairs.argtypes = (calls, c_size_t, c_int64, pointer)
    loaded.am_many.argtypes = (calls, c_size_t, c_int64, c_void_p, c_void_p, pointer, pointer)
    loaded.am_singles.argtypes = (calls, c_size_t, c_int64, c_void_p, c_void_p, c_void_p)
    loaded.am_alloc.argtypes = (calls, c_size_t, POINTER(c_void_p), pointer, pointer)
    loaded.am_free.argtypes = (calls, c_void_p, c_size_t, pointer, pointer)
    loaded.am_pair.argtypes = (calls, c_size_t, pointer, pointer)
    loaded.am_threads.argtypes = (
        *(calls, POINTER(_Entry), c_void_p, c_int32),
        *(c_size_t, c_int64, pointer),
    )
    loaded.am_reference.argtypes = (c_int32, pointer, pointer)
    loaded.am_reference.restype = None
    return loaded


@cache
def clock() -> tuple[str, int]:
    """Return the name and number of the clock of all native readings on this machine."""
    cost = {name: float(np.median(_differences(number))) for name, number in _CLOCKS.items()}
    raw, plain = _CLOCKS
    chosen = raw if cost[raw] <= _RAW_MAY_COST * cost[plain] else plain
    return chosen, _CLOCKS[chosen]


def _differences(number: int) -> NDArray[np.int64]:
    found = np.zeros(_CLOCK_READINGS, dtype=np.int64)
    library().am_clock(number, len(found), found.ctypes.data)
    return found


@cache
def draw_order(count: int) -> NDArray[np.int64]:
    """Return the order in which `count` blocks are freed: shuffled, the same in every run."""
    order = list(range(count))
    random.Random(ORDER_SEED).shuffle(order)
    return np.array(order, dtype=np.int64)


class NativeLoop:
    """The loop over one allocator's entry points, on one stream.

    `synchronize` is the address of ``int (void *stream)``, cudaStreamSynchronize; where it is 0
    completion is not waited for.
    """

    meter = NATIVE_METER

    def __init__(self, calls: NativeCalls, stream: int = 0, synchronize: int = 0) -> None:
        self._library = library()
        self._calls, self._queued = (
            _Calls(SHAPES.index(calls.shape), clock()[1], calls.alloc, calls.free, waits, stream)
            for waits in (synchronize, 0)
        )
        self._shape = calls.shape
        self._block = c_void_p()
        self._size_bytes = 0  # Of that block.

    @classmethod
    def empty(cls, shape: str) -> NativeLoop:
        """Return the loop over functions of that shape that do nothing."""
        alloc, free = (
            ctypes.cast(getattr(library(), name), c_void_p).value or 0 for name in _EMPTY[shape]
        )
        return cls(NativeCalls(shape, alloc, free))

    def pairs(self, size_bytes: int, count: int) -> float:
        total = c_int64()
        self._call("am_pairs", size_bytes, count, byref(total))
        return total.value / count

    def many(self, size_bytes: int, count: int) -> tuple[float, float]:
        alloc, free = c_int64(), c_int64()
        order, blocks = draw_order(count), np.zeros(count, dtype=np.uint64)
        places = order.ctypes.data, blocks.ctypes.data
        self._call("am_many", size_bytes, count, *places, byref(alloc), byref(free))
        return alloc.value / count, free.value / count

    def singles(self, size_bytes: int, count: int) -> Singles:
        found = Singles(*(np.zeros(count, dtype=np.int64) for _ in Singles._fields))
        pointers = (array.ctypes.data for array in found)
        self._call("am_singles", size_bytes, count, *pointers)
        return found

    def alloc(self, size_bytes: int) -> Timed:
        host, complete = c_int64(), c_int64()
        self._size_bytes = size_bytes
        self._call("am_alloc", size_bytes, byref(self._block), byref(host), byref(complete))
        return Timed(host.value, complete.value)

    def free(self, wait: bool = True) -> Timed:
        host, complete = c_int64(), c_int64()
        block = self._block, self._size_bytes
        self._call("am_free", *block, byref(host), byref(complete), wait=wait)
        return Timed(host.value, complete.value)

    def pair(self, size_bytes: int) -> Timed:
        host, complete = c_int64(), c_int64()
        self._call("am_pair", size_bytes, byref(host), byref(complete))
        return Timed(host.value, complete.value)

    def clock_ns(self) -> NDArray[np.int64]:
        return _differences(clock()[1])

    def threads(self, streams: list[int], entry: ThreadEntry, size_bytes: int, count: int) -> float:
        """Return the nanoseconds in which one thread for each stream made `count` pairs each.

        From the start of the first thread's loop to the end of the last one's; all wait for each
        other before they start, and have made two pairs by then.
        """
        total = c_int64()
        handles = np.array(streams, dtype=np.uint64)
        start = _Entry(entry.set_device, entry.create_guard, entry.delete_guard, entry.device)
        queues = handles.ctypes.data, len(streams)
        self._call("am_threads", byref(start), *queues, size_bytes, count, byref(total))
        return float(total.value)

    def _call(self, name: str, *arguments: Any, wait: bool = True) -> None:
        calls = byref(self._calls if wait else self._queued)
        code: int = getattr(self._library, name)(calls, *arguments)
        if code == 0:
            return
        # torch's entry points tell a failure, not its kind; with valid arguments it is memory.
        if self._shape == "aoti" and code > 0:
            raise DeviceOutOfMemoryError("torch's allocator could not serve the request")
        if code == _RUNTIME_OUT_OF_MEMORY:
            raise DeviceOutOfMemoryError("the driver could not serve the request")
        raise CallFailedError(f"a timed call of shape {self._shape} returned error {code}")


def quantile_interval(ordered: NDArray[np.int64], quantile: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a quantile of sorted readings, None where they are too few.

    By order statistics, as the median's (David and Nagaraja, Order Statistics, 7.1).
    """
    n = len(ordered)
    if n == 0:
        return None
    tail = (1 - CONFIDENCE) / 2
    low, high = _fewest(tail, n, quantile), _fewest(1 - tail, n, quantile) + 1
    return (float(ordered[low - 1]), float(ordered[high - 1])) if 1 <= low < high <= n else None


_ROUNDING = 1e-12
"""What sums of probabilities may be off by."""


def _fewest(probability: float, n: int, share: float) -> int:
    """Return the smallest k with P(X <= k) >= probability, X binomial(n, share).

    As scipy.stats has it, whose import takes a second of each process that measures.
    """
    k = max(0, math.ceil(bdtrik(probability, n, share)))
    return k - 1 if k and bdtr(k - 1, n, share) >= probability - _ROUNDING else k
