"""One GPU through the bare driver: a context, 64 allocations with a pattern, their release.

``python -m allocmark.check.driver_part DEVICE PARENT`` prints its readings (`child.run`). Every
block is written whole and read back in windows over its length: all of 100 GiB and more would take
longer than the check may.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from allocmark.check import child
from allocmark.cuda import driver
from allocmark.machine.emulated import is_emulated
from allocmark.meters.memory import MemoryMeters
from allocmark.system.units import MIB

ALLOCATIONS = 64
LARGEST_SHARE = 0.9
"""Of what is free: the driver and a framework's first kernels need the rest."""
SMALLEST_BYTES = 512
_WINDOWS = 16
_WINDOW_BYTES = MIB
_PATTERN = 0xA5C30F69
"""Differs in neighbouring bits and bytes; each block has it plus its number."""
_WORD = 4

T = TypeVar("T")


def sizes(free_bytes: int) -> list[int]:
    """Return the sizes of the allocations: equal steps of a logarithmic scale, whole words."""
    ratio = (free_bytes * LARGEST_SHARE / SMALLEST_BYTES) ** (1 / (ALLOCATIONS - 1))
    return [int(SMALLEST_BYTES * ratio**step) // _WORD * _WORD for step in range(ALLOCATIONS)]


def main(device: int, say: child.Stage) -> dict[str, Any]:
    """Return the readings: bytes by meter after the context, and of each allocation."""
    say("cuInit")
    driver.init()
    say("NVML")
    meters = MemoryMeters(device)
    before = meters.read()
    say("the context")
    began = time.perf_counter()
    driver.create_context(device)
    context_seconds = time.perf_counter() - began
    after = meters.read()
    # The first call of a kind loads what the driver keeps: it must not count as an allocation's.
    _allocation(0, 2 * _WINDOW_BYTES, say)
    say("cuMemGetInfo")
    free_before, total = driver.memory_info()
    every = enumerate(sizes(free_before))
    allocations = [_allocation(number, size, say) for number, size in every]
    say("cuMemGetInfo at the end")
    return {
        "emulated": is_emulated(),
        "before": before,
        "after": after,
        "context_seconds": context_seconds,
        "total_bytes": total,
        "free_before_bytes": free_before,
        "free_after_bytes": driver.memory_info()[0],
        "allocations": allocations,
    }


def _allocation(number: int, size: int, say: child.Stage) -> dict[str, Any]:
    """Allocate, write, read back and release one block."""
    say("cuMemGetInfo")
    # Each time anew: a page that small blocks share may stay with the driver.
    free_bytes, _ = driver.memory_info()
    say(f"cuMemAlloc of {size} bytes, with {free_bytes} free")
    address, alloc_ns = _timed(lambda: driver.alloc(size))
    taken = free_bytes - driver.memory_info()[0]
    say(f"writing {size} bytes")
    word = (_PATTERN + number) & 0xFFFFFFFF
    driver.fill(address, word, size // _WORD)
    driver.synchronize()
    say(f"reading {size} bytes back")
    expected = word.to_bytes(_WORD, sys.byteorder)
    wrong = sum(
        driver.read(address + start, length) != expected * (length // _WORD)
        for start, length in windows(size)
    )
    say(f"cuMemFree of {size} bytes")
    _, free_ns = _timed(lambda: driver.free(address))
    return {
        "bytes": size,
        "alloc_ns": alloc_ns,
        "free_ns": free_ns,
        "taken_bytes": taken,
        # What is emulated holds nothing: its copies are tried all the same.
        "wrong_windows": 0 if is_emulated() else wrong,
    }


def windows(size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and length of what is read back: all of a small block, of others the ends too."""
    if size <= _WINDOWS * _WINDOW_BYTES:
        yield 0, size
        return
    last = size - _WINDOW_BYTES
    for step in range(_WINDOWS):
        yield last * step // (_WINDOWS - 1) // _WORD * _WORD, _WINDOW_BYTES


def _timed(call: Callable[[], T]) -> tuple[T, int]:
    began = time.perf_counter_ns()
    result = call()
    return result, time.perf_counter_ns() - began


if __name__ == "__main__":
    child.run(lambda say: main(int(sys.argv[1]), say), int(sys.argv[2]))
