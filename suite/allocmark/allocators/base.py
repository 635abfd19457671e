"""What an allocator is: a name, the environment its process needs, and a few methods.

To add one, write one file that subclasses `Allocator` and lists its instances in a module-level
``ALLOCATORS`` tuple; put it beside this one, or anywhere and name it with ``--allocator-file``.
Whatever lists allocators (runs, tables, asv's axes) takes their names and order from there.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType, ModuleType
from typing import Any, ClassVar

from allocmark.cuda import runtime
from allocmark.system.errors import NotMeasurableError
from allocmark.system.message import Message, Text


class Capability(StrEnum):
    """What an allocator can do; an experiment looks before it tries, tables show what it lacks."""

    CACHE = "keeps freed memory and reuses it"
    TRIM = "gives cached memory back to the driver when told to"
    STREAMS = "knows streams"
    RECORD_STREAM = "defers a free until another stream has passed it"
    PRIVATE_POOLS = "has private pools"
    OP = "is reached by a framework operation"
    RESTART = "starts clean again in one process"
    EXACT = "repeats to the byte"


class PoolKind(StrEnum):
    """Whose a private pool is: that decides what becomes of its memory once it is released."""

    GRAPH = "graph"
    """A captured CUDA graph's own: its memory can be returned at the next trim or retry."""
    SHARED = "shared"
    """A handle that several graphs share; as a graph's own."""
    MEMPOOL = "mempool"
    """A `MemPool`, which returns what it has cached as it is released."""


LAST = 100
"""Place of the allocators that come after those with a place of their own."""
NOTHING_SET = Message("nothing: its defaults")


class Tier(StrEnum):
    """Which runs measure an allocator."""

    BASE = "every run"
    LIBRARY = "full runs, where its library is installed"
    SETTING = "full runs, latency apart: another setting of a base allocator takes the same ways"


@dataclass(frozen=True, slots=True)
class Stats:
    """The allocator's own counters, in bytes and counts; None where it keeps none.

    `driver_allocs` counts requests for memory made to the driver, `driver_frees` returns to it.
    `segments` are the pieces of driver memory held now. `inactive_split_bytes` are free bytes in
    segments that also hold live blocks: what `empty_cache` cannot return.
    """

    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    peak_allocated_bytes: int | None = None
    peak_reserved_bytes: int | None = None
    inactive_split_bytes: int | None = None
    segments: int | None = None
    driver_allocs: int | None = None
    driver_frees: int | None = None
    retries: int | None = None
    ooms: int | None = None


@dataclass(frozen=True, slots=True)
class NativeCalls:
    """C entry points for the native timing loop, as addresses.

    `shape` names their signatures: ``runtime`` is ``int alloc(void **out, size_t n)`` and
    ``int free(void *p)``; ``runtime-async`` the same with a stream behind; ``aoti`` is
    ``int alloc(uint64_t n, void **out)`` and ``int free(void *p)``; ``sized`` is ``runtime`` with
    the size in ``free`` too: ``int free(void *p, size_t n)``. `synchronize` is
    ``int (void *stream)``; 0 stands for cudaStreamSynchronize. `bare` is
    ``double (uint64_t n, int pairs)``, a loop in the library's own language over its own calls
    (mean nanoseconds of a pair, below 0 for a failure); 0 where alloc and free are these calls.
    """

    shape: str
    alloc: int
    free: int
    synchronize: int = 0
    bare: int = 0


@dataclass(frozen=True, slots=True)
class PythonCalls:
    """The library's own callables for the timing loop in Python, with nothing of ours between.

    A block is ``make(size_bytes, *extra)``, freed by ``release(block)``, where `sized` by
    ``release(block, size_bytes)``; without `release` its last reference is dropped.
    """

    make: Callable[..., Any]
    release: Callable[..., object] | None = None
    extra: tuple[object, ...] = ()
    sized: bool = False


class Allocator(ABC):
    """One way to get device memory, used by one process.

    Creating one touches nothing; `open` imports the framework and creates the context. Blocks are
    integers: the device address. Stream 0 is the default stream, others are made as first named.
    """

    framework: ClassVar[str]
    """``cuda`` (bare driver and runtime), ``torch``, ``tensorflow``, ``cupy``, ``rmm``, ``jax``."""

    capabilities: frozenset[Capability] = frozenset()
    tier: Tier = Tier.BASE
    """An allocator of a user's own is measured in every run, unless it says otherwise."""
    order: int = LAST
    """Its place in lists, tables and axes: lower ones first."""
    tracked: bool = False
    """Whether asv has series of it, where it is one of the suite's own: asv draws 1,500 at most."""
    description: Text = ""
    """What it is, in half a sentence; the report's table of names leaves out those without one."""
    meter: str = "allocator counters"
    """The meter of the figures that come from `stats`."""
    slow_op: bool = False
    """Whether an operation takes some ten microseconds: a batch of them then holds fewer."""
    slow_restart: bool = False
    """Whether to start clean again takes a GPU seconds: all of its memory is mapped anew."""
    driver_pool: bool = False
    """Whether its blocks lie in the driver's own pool, which places them."""
    fixed_region: bool = False
    """Whether it holds one region throughout, whatever is requested."""
    limit_bytes: int | None = None
    """What it holds at most by a limit of its own, however much the device has free."""
    needs_limit: bool = False
    """Whether its setting does nothing until the process has a limit, see `limit`: it is measured
    only where there is one."""
    same_driver_calls: str | None = None
    """Another allocator of the suite that makes the same requests of the driver in any capacity: on
    a GPU the smallest capacities are searched once for both."""
    map_meter: str = "none"
    """The meter of the figures that come from `segment_map`."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str] | None = None,
        *,
        order: int | None = None,
        description: Text | None = None,
        configured_by: Text | None = None,
    ) -> None:
        self.name = name
        self.environment: Mapping[str, str] = MappingProxyType(dict(environment or {}))
        variables = " ".join(f"{key}={value}" for key, value in self.environment.items())
        self.configured_by: Text = configured_by or variables or NOTHING_SET
        """How a user gets it: a call or variables of the environment."""
        self.order = self.order if order is None else order
        self.description = self.description if description is None else description

    def prepare(self) -> None:
        """Import what is slow to import, without touching the GPU (done ahead of time)."""

    @abstractmethod
    def open(self, device: int) -> None:
        """Import the framework, create the context.

        Raises `NotMeasurableError` with the reason where it is missing or cannot use the GPU.
        """

    def setting(self) -> str | None:
        """Return the setting in force, None where its environment says it all; after `open`."""
        return None

    @abstractmethod
    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        """Return the address of a new block. Raises `DeviceOutOfMemoryError`."""

    @abstractmethod
    def free(self, block: int, stream: int = 0) -> None:
        """Give a block back to the allocator (not necessarily to the driver)."""

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked."""
        runtime.synchronize()

    def stats(self) -> Stats:
        """Return the allocator's counters."""
        return Stats()

    def reset_peaks(self) -> None:
        """Let peaks begin at the present values."""

    def trim(self) -> None:
        """Give cached memory back to the driver."""
        raise self.lacks(Capability.TRIM)

    def restart(self) -> None:
        """Return to the state after `open`, all blocks having been freed."""
        raise self.lacks(Capability.RESTART)

    def limit(self, capacity_bytes: int) -> None:
        """Say how much the process may hold: of interest to a setting that acts on that."""

    def largest_free_bytes(self) -> int | None:
        """Return the largest cached block that could be handed out now, if the allocator tells."""
        return None

    def used_extent_bytes(self) -> int | None:
        """Return how far into its one fixed region blocks have lain, None where it has no such."""
        return None

    def driver_requests(self) -> list[tuple[int, int]] | None:
        """Return bytes and address of each request to the driver since the start, in order.

        Bytes are 0 where it was refused, below 0 where memory was given back. None where this is
        not told.
        """
        return None

    def segment_map(self) -> list[tuple[int, int]] | None:
        """Return bytes and live bytes of each segment held now, None where it tells no map."""
        return None

    def begin_pool(self, pool: int, kind: PoolKind) -> None:
        """Let allocations go to the private pool of that number, made when it is first named."""
        raise self.lacks(Capability.PRIVATE_POOLS)

    def end_pool(self) -> None:
        """Let allocations go to the common pool again."""
        raise self.lacks(Capability.PRIVATE_POOLS)

    def release_pool(self, pool: int) -> None:
        """Let go of a private pool that no allocation goes to."""
        raise self.lacks(Capability.PRIVATE_POOLS)

    def release_pools(self) -> None:
        """Let go of all private pools; allocations go to the common one."""

    def private_pools(self) -> Mapping[tuple[int, int], int]:
        """Return the number of each private pool that is not released, by the allocator's id."""
        return {}

    def alloc_shared(self, size_bytes: int, stream: int = 0) -> int:
        """Like `alloc`, for a block that `record_stream` will be called on."""
        return self.alloc(size_bytes, stream)

    def record_stream(self, block: int, stream: int) -> None:
        """Tell the allocator that another stream uses the block."""
        raise self.lacks(Capability.RECORD_STREAM)

    def stream_handle(self, stream: int) -> int:
        """Return the CUDA stream behind a stream number, 0 for the default stream."""
        if stream == 0:
            return 0
        raise self.lacks(Capability.STREAMS)

    def native(self) -> NativeCalls | None:
        """Return C entry points for the timing loop, None where there are none."""
        return None

    def python_calls(self) -> PythonCalls:
        """Return what to time where there are no C entry points: never a method that keeps books.

        Those of an allocator of a user's own are the allocator itself.
        """
        return PythonCalls(self.alloc, self.free)

    def op(self, size_bytes: int) -> object:
        """Allocate as a line of user code does; dropping the result frees it."""
        raise self.lacks(Capability.OP)

    def lacks(self, capability: Capability) -> NotMeasurableError:
        """Return the error for a capability this allocator does not have."""
        return NotMeasurableError(f"{self.name} does not do this: nothing here {capability.value}")


def import_framework(module: str) -> ModuleType:
    """Import a framework's module. Raises `NotMeasurableError` where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise NotMeasurableError(f"{name} cannot be imported here ({error})") from error
