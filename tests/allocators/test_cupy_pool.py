"""CuPy's pool by its documented interface: CuPy itself needs a GPU."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from allocmark.allocators.cupy_pool import CupyPool
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError

ROUND = 512


class OutOfMemoryError(MemoryError):
    pass


class Memory:
    live = 0
    capacity = 1 << 30

    def __init__(self, size: int) -> None:
        if Memory.live + size > Memory.capacity:
            raise OutOfMemoryError(f"Out of memory allocating {size} bytes")
        Memory.live += size
        self.size = size


class MemoryPointer:
    addresses = 4096

    def __init__(self, memory: Memory, offset: int) -> None:
        MemoryPointer.addresses += 4096
        self.memory, self.ptr = memory, MemoryPointer.addresses + offset


class MemoryPool:
    """Keeps what is freed by size, as the simplest pool does."""

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator
        self._free: dict[int, list[Memory]] = {}
        self._used = 0

    def malloc(self, size: int) -> Any:
        size = -(-size // ROUND) * ROUND
        cached = self._free.get(size)
        memory = cached.pop() if cached else self._allocator(size).memory
        self._used += size
        pool = self

        class Held(MemoryPointer):
            def __del__(self) -> None:
                pool._used -= size
                pool._free.setdefault(size, []).append(memory)

        return Held(memory, 0)

    def used_bytes(self) -> int:
        return self._used

    def total_bytes(self) -> int:
        return self._used + sum(size * len(kept) for size, kept in self._free.items())

    def free_all_blocks(self) -> None:
        Memory.live -= sum(size * len(kept) for size, kept in self._free.items())
        self._free.clear()


class Stream:
    handles = 0

    def __init__(self, non_blocking: bool = False) -> None:
        Stream.handles += 1
        self.ptr = Stream.handles

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> CupyPool:
    null = Stream()
    null.ptr = 0
    Stream.null = null  # type: ignore[attr-defined]
    Memory.live = 0
    module = ModuleType("cupy")
    module.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        is_available=lambda: True,
        Device=lambda device: SimpleNamespace(use=lambda: None),
        Stream=Stream,
        Memory=Memory,
        MemoryPointer=MemoryPointer,
        MemoryPool=MemoryPool,
        set_allocator=lambda malloc: None,
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(runtime, "set_device", lambda device: None)
    monkeypatch.setattr(runtime, "synchronize", lambda: None)
    made = CupyPool("cupy-pool")
    made.open(0)
    return made


def test_counts_what_the_pool_asks_of_the_driver(pool: CupyPool) -> None:
    first = pool.alloc(1000)
    pool.free(first)
    second = pool.alloc(900)
    stats = pool.stats()
    assert (stats.allocated_bytes, stats.reserved_bytes) == (1024, 1024)
    assert (stats.driver_allocs, stats.peak_reserved_bytes) == (1, 1024)
    pool.free(second)
    pool.restart()
    assert (pool.stats().reserved_bytes, pool.stats().driver_allocs) == (0, 0)


def test_the_pool_s_own_malloc_is_timed(pool: CupyPool) -> None:
    calls = pool.python_calls()
    assert isinstance(calls.make.__self__, MemoryPool)  # type: ignore[attr-defined]
    assert calls.release is None
    calls.make(512, *calls.extra)  # Dropped at once: the block is free again.
    assert pool.stats().allocated_bytes == 0


def test_makes_streams_as_they_are_named(pool: CupyPool) -> None:
    assert pool.stream_handle(0) == 0
    assert len({pool.stream_handle(stream) for stream in range(4)}) == 4
    pool.free(pool.alloc(512, 3), 3)


def test_out_of_memory_keeps_the_words(pool: CupyPool) -> None:
    with pytest.raises(DeviceOutOfMemoryError, match="allocating 2147483648 bytes"):
        pool.alloc(1 << 31)


def test_says_that_cupy_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(NotMeasurableError, match="cupy cannot be imported here"):
        CupyPool("cupy-pool").prepare()
