"""One process on one GPU: what NVML counts, taken apart into what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from allocmark.explain.counter_file import Counters
from allocmark.explain.devices import Gpu
from allocmark.explain.measured_facts import MeasuredFacts
from allocmark.schema.memory_kinds import (
    CACHED,
    CONTEXT,
    INACTIVE_SPLIT,
    LIVE,
    OTHER,
    PENDING_FREE,
    MemoryKind,
)

_UNLISTED = "NVML does not list this process: a container hides process ids, or it has no context"
_HIDDEN = "NVML lists this process without its memory (so in some containers and under WDDM)"
_UNSPLIT = "expandable segments, cudaMallocAsync"
_NOT_COUNTED = f"torch does not count its free blocks apart here ({_UNSPLIT})"
_APART = "the counters add up to more than NVML shows: they were read at different moments"


@dataclass(frozen=True, slots=True)
class Part:
    """So many bytes of a kind; None where they are not known, `note` says why or by what."""

    name: str
    bytes: int | None
    note: str


@dataclass(frozen=True, slots=True)
class Account:
    """`total` is what NVML shows of the process, the parts add up to it where all are known."""

    gpu: Gpu
    counters: tuple[Counters, ...]
    total: Part
    parts: tuple[Part, ...]


def take_apart(gpu: Gpu, pid: int, counters: Sequence[Counters], facts: MeasuredFacts) -> Account:
    """Return the account of a process on a GPU; without counters the rest is unknown."""
    total = _total(gpu, pid)
    context = Part(CONTEXT.name, facts.context_bytes, facts.context_note)
    inside = [part for counted in counters for part in _inside(counted, len(counters) > 1)]
    rest = _rest(total, context, counters)
    return Account(gpu, tuple(counters), total, (context, *inside, rest))


def _total(gpu: Gpu, pid: int) -> Part:
    listed = gpu.processes or {}
    if pid not in listed:
        return Part("in all", None, _UNLISTED)
    count = listed[pid]
    return Part("in all", count, _HIDDEN if count is None else "NVML by process")


def _inside(counted: Counters, several: bool) -> list[Part]:
    """Return what a framework says of its own memory."""
    own = f" ({counted.framework})" if several else ""
    source = f"{counted.framework} {counted.version}".strip()
    live = Part(f"{LIVE.name}{own}", counted.live_bytes, f"{LIVE.meaning}: {source}")
    if counted.reserved_bytes is None:
        return [live]
    active = counted.live_bytes if counted.active_bytes is None else counted.active_bytes
    free = counted.reserved_bytes - active
    parts = [live]
    if active > counted.live_bytes:
        parts.append(_of(PENDING_FREE, own, active - counted.live_bytes))
    split = counted.inactive_split_bytes
    if split is None:
        both = f"{CACHED.name} or {INACTIVE_SPLIT.name}"
        return [*parts, Part(f"{both}{own}", free, _NOT_COUNTED)]
    return [*parts, _of(CACHED, own, free - split), _of(INACTIVE_SPLIT, own, split)]


def _of(kind: MemoryKind, own: str, count: int) -> Part:
    return Part(f"{kind.name}{own}", count, kind.meaning)


def _rest(total: Part, context: Part, counters: Sequence[Counters]) -> Part:
    held = sum(
        counted.live_bytes if counted.reserved_bytes is None else counted.reserved_bytes
        for counted in counters
    )
    if not counters:
        name = "rest unknown"
        note = "no counters of its own: it has not called allocmark.watch()"
    elif any(counted.reserved_bytes is None for counted in counters):
        name = "rest"
        note = f"{CACHED.name}, {INACTIVE_SPLIT.name}, other: TensorFlow tells its live bytes only"
    else:
        name, note = OTHER.name, OTHER.meaning
    if context.bytes is None:
        note = f"the context is among it; {note}"
    if total.bytes is None:
        return Part(name, None, "what NVML counts for this process is not known")
    count = total.bytes - (context.bytes or 0) - held
    if count >= 0:
        return Part(name, count, note)
    if not counters:
        return Part(name, None, "NVML shows less than a bare context takes")
    return Part(name, None, _APART)
