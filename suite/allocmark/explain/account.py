"""One process on one GPU: what NVML counts, taken apart into what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from allocmark.explain.counter_file import Counters
from allocmark.explain.devices import Card
from allocmark.explain.known import Known

_UNLISTED = "NVML does not list this process: a container hides process ids, or it has no context"
_HIDDEN = "NVML lists this process without its memory (so in some containers and under WDDM)"
_NOT_COUNTED = (
    "torch does not count its free blocks apart here (expandable segments, cudaMallocAsync)"
)
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

    card: Card
    counters: tuple[Counters, ...]
    total: Part
    parts: tuple[Part, ...]


def take_apart(card: Card, pid: int, counters: Sequence[Counters], known: Known) -> Account:
    """Return the account of a process on a card; without counters the rest is unknown."""
    total = _total(card, pid)
    context = Part("context", known.context_bytes, known.context_note)
    inside = [part for one in counters for part in _inside(one, len(counters) > 1)]
    rest = _rest(total, context, counters)
    return Account(card, tuple(counters), total, (context, *inside, rest))


def _total(card: Card, pid: int) -> Part:
    listed = card.processes or {}
    if pid not in listed:
        return Part("in all", None, _UNLISTED)
    count = listed[pid]
    return Part("in all", count, _HIDDEN if count is None else "NVML by process")


def _inside(one: Counters, several: bool) -> list[Part]:
    """Return what a framework says of its own memory."""
    own = f" ({one.framework})" if several else ""
    source = f"{one.framework} {one.version}".strip()
    live = Part(f"live{own}", one.live_bytes, f"held by the program: {source}")
    if one.reserved_bytes is None:
        return [live]
    active = one.live_bytes if one.active_bytes is None else one.active_bytes
    free = one.reserved_bytes - active
    parts = [live]
    if active > one.live_bytes:
        note = "freed by the program, another stream may still use it"
        parts.append(Part(f"stuck{own}", active - one.live_bytes, note))
    if one.fragmented_bytes is None:
        return [*parts, Part(f"cached or fragmented{own}", free, _NOT_COUNTED)]
    return [
        *parts,
        Part(
            f"cached{own}",
            free - one.fragmented_bytes,
            "free in segments without any live block: empty_cache() gives it back",
        ),
        Part(
            f"fragmented{own}",
            one.fragmented_bytes,
            "free beside live blocks: it can only be used again by what fits",
        ),
    ]


def _rest(total: Part, context: Part, counters: Sequence[Counters]) -> Part:
    held = sum(
        one.live_bytes if one.reserved_bytes is None else one.reserved_bytes for one in counters
    )
    if not counters:
        name = "rest unknown"
        note = "no counters of its own: it has not called allocmark.watch()"
    elif any(one.reserved_bytes is None for one in counters):
        name = "rest"
        note = "cached, fragmented and other: TensorFlow tells its live bytes only"
    else:
        name, note = "other", "modules, workspaces and what libraries took past the framework"
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
