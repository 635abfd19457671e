"""RMM's resources by their documented interface: RMM itself needs a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from allocmark.allocators.rmm_resources import ALLOCATORS, shim
from allocmark.allocators.rmm_resources.allocator import RmmResource
from allocmark.cuda import runtime
from allocmark.system.errors import DeviceOutOfMemoryError, NotMeasurableError

INITIAL = 1 << 20


class CudaMemoryResource:
    capacity = 4 << 20

    def __init__(self) -> None:
        self.live: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        if sum(self.live.values()) + nbytes > self.capacity:
            raise MemoryError("std::bad_alloc: out_of_memory: CUDA error")
        pointer = max(self.live, default=0) + 1
        self.live[pointer] = nbytes
        return pointer

    def deallocate(self, pointer: int, nbytes: int) -> None:
        assert self.live.pop(pointer) == nbytes


class StatisticsResourceAdaptor:
    def __init__(self, upstream: Any) -> None:
        self._upstream = upstream
        self.allocation_counts = SimpleNamespace(
            current_bytes=0, current_count=0, peak_bytes=0, total_count=0
        )

    def allocate(self, nbytes: int) -> int:
        pointer: int = self._upstream.allocate(nbytes)
        counts = self.allocation_counts
        counts.current_bytes += nbytes
        counts.current_count += 1
        counts.total_count += 1
        counts.peak_bytes = max(counts.peak_bytes, counts.current_bytes)
        return pointer


class PoolMemoryResource:
    """Begins with a share, and asks its upstream for what does not fit."""

    def __init__(self, upstream: Any) -> None:
        self._upstream, self._left, self._pointers = upstream, INITIAL, 100
        upstream.allocate(INITIAL)

    def allocate(self, nbytes: int) -> int:
        if nbytes > self._left:
            self._upstream.allocate(nbytes)
        else:
            self._left -= nbytes
        self._pointers += 1
        return self._pointers

    def deallocate(self, pointer: int, nbytes: int) -> None:
        self._left += nbytes


@pytest.fixture
def rmm(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rmm.mr")
    for made in (
        CudaMemoryResource,
        StatisticsResourceAdaptor,
        PoolMemoryResource,
    ):
        setattr(module, made.__name__, made)
    module.ArenaMemoryResource = PoolMemoryResource  # type: ignore[attr-defined]
    module.CudaAsyncMemoryResource = CudaMemoryResource  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rmm", ModuleType("rmm"))
    monkeypatch.setitem(sys.modules, "rmm.mr", module)

    def no_shim() -> None:
        raise NotMeasurableError("no headers, says the test")

    monkeypatch.setattr(shim, "build", no_shim)
    monkeypatch.setattr(runtime, "set_device", lambda device: None)
    monkeypatch.setattr(runtime, "synchronize", lambda: None)


@pytest.mark.usefixtures("rmm")
@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda allocator: str(allocator.name))
def test_counts_what_is_requested(allocator: RmmResource) -> None:
    allocator.open(0)
    first, second = allocator.alloc(1000), allocator.alloc(50)
    allocator.free(first)
    stats = allocator.stats()
    assert (stats.allocated_bytes, stats.peak_allocated_bytes) == (50, 1050)
    allocator.free(second)
    allocator.restart()
    assert allocator.stats().peak_allocated_bytes == 0


@pytest.mark.usefixtures("rmm")
def test_the_pool_shows_its_share_and_its_growth() -> None:
    allocator = ALLOCATORS[0]
    allocator.open(0)
    assert allocator.stats().reserved_bytes == INITIAL
    allocator.alloc(INITIAL + 1)
    stats = allocator.stats()
    assert (stats.driver_allocs, stats.segments) == (2, 2)
    assert stats.peak_reserved_bytes == 2 * INITIAL + 1
    allocator.restart()
    assert allocator.stats().driver_allocs == 1


@pytest.mark.usefixtures("rmm")
def test_out_of_memory_keeps_the_words() -> None:
    allocator = ALLOCATORS[0]
    allocator.open(0)
    with pytest.raises(DeviceOutOfMemoryError, match="out_of_memory"):
        allocator.alloc(1 << 30)


@pytest.mark.usefixtures("rmm")
@pytest.mark.parametrize("allocator", ALLOCATORS, ids=lambda allocator: str(allocator.name))
def test_without_the_shim_rmm_s_own_methods_are_timed(allocator: RmmResource) -> None:
    allocator.open(0)
    calls = allocator.python_calls()
    assert allocator.native() is None
    assert type(calls.make.__self__).__module__ == __name__  # type: ignore[attr-defined]
    assert calls.release is not None
    calls.release(calls.make(512, *calls.extra), 512)
    assert allocator.setting() == "called through rmm.mr (no headers, says the test)"


@pytest.mark.parametrize("headers", [True, False])
def test_shim_is_built_against_the_installed_librmm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: bool
) -> None:
    """Every part that the wheels bring is named to the compiler; what is missing is a reason."""
    for name in ("librmm/lib64/librmm.so", "librmm/VERSION", "cuda/include/cuda_runtime_api.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1.0")
    if headers:
        (tmp_path / "cuda/include/crt").mkdir()
        (tmp_path / "cuda/include/crt/host_defines.h").write_text("")
    built: list[list[str]] = []

    def shared_library(name: str, sources: list[Path], *, language: str, flags: list[str]) -> Path:
        assert (name, sources, language) == ("rmm-shim", [shim.SOURCE], "c++")
        built.append(flags)
        return tmp_path / "rmm-shim.so"

    monkeypatch.setattr(shim, "shared_library", shared_library)
    monkeypatch.setattr(
        shim, "_folder", lambda module: tmp_path / module if module == "librmm" else None
    )
    monkeypatch.setattr(shim, "_cuda_folders", lambda: [tmp_path / "cuda/include"])
    if not headers:
        with pytest.raises(NotMeasurableError, match="CUDA's headers are not found"):
            shim.build()
        return
    assert shim.build() == tmp_path / "rmm-shim.so"
    assert built[0][-2:] == [f"-L{tmp_path}/librmm/lib64", "-l:librmm.so"]
    assert f"{tmp_path}/cuda/include" in built[0]


def test_says_that_rmm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rmm.mr", None)
    with pytest.raises(NotMeasurableError, match="rmm cannot be imported here"):
        ALLOCATORS[0].prepare()
