"""A memory breakdown in words."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.allocators.base import PoolKind
from allocmark.recording.importers.frames import below_packages, is_of_torch
from allocmark.recording.importers.recording import Recording
from allocmark.replays.memory_breakdown import Holder, MemoryBreakdown, Pin, PrivatePool
from allocmark.schema.memory_kinds import (
    CACHED,
    INACTIVE_SPLIT,
    LIVE,
    PENDING_FREE,
    PRIVATE_POOL,
)
from allocmark.system.units import format_bytes, format_count

_PLACES = 3
_OWNERS = {
    PoolKind.GRAPH: "of a CUDA graph",
    PoolKind.SHARED: "shared by CUDA graphs",
    PoolKind.MEMPOOL: "of a MemPool, or shared by CUDA graphs",
}


def sentences(
    memory: MemoryBreakdown, under: str, failing: bool, recording: Recording
) -> list[str]:
    """Return what memory was made of, and who pins what, a sentence each."""
    when = "At the request that failed" if failing else "Where most memory is reserved"
    if not recording.has_history:
        when = "At the end"
    all_segments = format_count(memory.segments, "segment")
    pinned_segments = format_count(memory.pinned_segments, "segment")
    lines = [
        f"{when} (event {memory.event}, under {under}) {format_bytes(memory.reserved_bytes)} are "
        f"reserved in {all_segments}: {format_bytes(memory.live_bytes)} {LIVE.name}, "
        + ", ".join(
            f"{format_bytes(count)} {kind.name}" + f" ({kind.meaning}{where})" * (count > 0)
            for kind, count, where in (
                (CACHED, memory.cached_bytes, ""),
                (INACTIVE_SPLIT, memory.inactive_split_bytes, f"; in {pinned_segments}"),
                (PENDING_FREE, memory.pending_free_bytes, ""),
            )
        )
        + _private(memory)
    ]
    if failing and recording.failed:
        last = recording.failed[-1]
        block = int(recording.trace.block[last.event])
        stack = recording.stack(block)
        where = f" in {place(stack)}" if stack else ""
        lines.append(
            f"It asked for {format_bytes(last.size_bytes)}{where}; "
            + _largest_free(memory, int(recording.trace.pool_of_block[block]))
        )
    lines += map(_pool, memory.pools[:_PLACES])
    if any(holder.stack for holder in memory.holders):
        lines.append("Most of what is live: " + "; ".join(map(_held, memory.holders[:_PLACES])))
    together: dict[tuple[int, ...], list[Pin]] = {}
    for pin in memory.pins:
        together.setdefault(tuple(pin.addresses), []).append(pin)
    return lines + [pinned(pins) for pins in list(together.values())[:_PLACES]]


def _private(memory: MemoryBreakdown) -> str:
    if not memory.pools:
        return ""
    free = format_bytes(memory.private_pool_free_bytes)
    return f", {free} {PRIVATE_POOL.name} ({PRIVATE_POOL.meaning})"


def _largest_free(memory: MemoryBreakdown, pool: int) -> str:
    """Say what was free for a request that went to that pool."""
    if not pool:
        return f"the largest free block had {format_bytes(memory.largest_free_bytes)}"
    own = next((p.largest_free_bytes for p in memory.pools if p.number == pool), 0)
    return (
        f"it went to a private pool, whose largest free block had {format_bytes(own)}; torch "
        "returns no cache for it"
    )


def _pool(pool: PrivatePool) -> str:
    owner = _OWNERS[pool.kind]
    text = (
        f"Private pool {owner}: {format_bytes(pool.reserved_bytes)} in "
        f"{format_count(pool.segments, 'segment')} ({format_bytes(pool.live_bytes)} live)"
    )
    if not pool.largest_request_bytes:
        return text
    return (
        f"{text}, its largest request {format_bytes(pool.largest_request_bytes)} of "
        f"{place(pool.stack)}"
    )


def _held(holder: Holder) -> str:
    blocks = format_count(holder.blocks, "block")
    where = f"of {place(holder.stack)}" if holder.stack else "without a line of Python"
    return f"{format_bytes(holder.live_bytes)} in {blocks} {where}"


def pinned(pins: Sequence[Pin]) -> str:
    """Return who keeps how much from being given back; the pins keep the same segments."""
    segments = format_count(pins[0].segments, "segment")
    kept = f"{format_bytes(pins[0].inactive_split_bytes)} {INACTIVE_SPLIT.name} in {segments}"
    owners = [
        (f"{format_count(pin.blocks, 'block')} ({format_bytes(pin.live_bytes)})", place(pin.stack))
        for pin in pins
    ]
    if len(owners) == 1:
        ((blocks, where),) = owners
        return f"{blocks} {'keeps' if pins[0].blocks == 1 else 'keep'} {kept}: {where}"
    return f"{kept}, kept by " + "; ".join(f"{blocks} of {where}" for blocks, where in owners)


def place(stack: Sequence[str]) -> str:
    """Return where a stack is, innermost first, the program's own lines before torch's."""
    ordered = sorted(stack, key=is_of_torch)
    return " < ".join(map(below_packages, ordered[:_PLACES])) or "no stack was recorded"
