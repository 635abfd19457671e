"""The steps of a request through torch's allocator, in torch's order, with each one's figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor, log10

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Evidence, Ruling
from allocmark.claims.core.derivations import ratio, total
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.core.judging import NO_TIMES
from allocmark.schema.metrics import context, placement
from allocmark.schema.metrics import request_path as metrics
from allocmark.system.message import Message, Text
from allocmark.system.units import MIB, format_bytes

_Take = Callable[[EvidenceCollector], object]
"""What takes a figure as evidence."""
_Seen = Callable[[EvidenceCollector], bool]
"""Whether the figures show a step as it is described."""
_OFF = Message("off by default: no request of the workloads takes it")
_NOT_APART = Message("not measured apart: it is part of every request's time")
_NO_COUNTER = Message("not measured: torch counts no callbacks")
_TAKEN = {1: 512, 513: 1024, 2 * MIB + 1: 2 * MIB + 512}


@dataclass(frozen=True, slots=True)
class Step:
    """What is done, how many requests of the workloads come to it, and what such a request costs.

    Each figure is evidence, or the reason why there is none. `finds` says that a block may be found
    there, `verdict` whether crafted programs and counts show it as described, None where
    there is nothing to be judged.
    """

    name: str
    words: Message
    does: Message
    counts: tuple[Evidence | Text, ...]
    shares: tuple[Evidence | Text, ...]
    cost: Evidence | Text
    size: Text
    verdict: Ruling | None
    finds: bool = False


def steps(evidence: EvidenceCollector) -> tuple[Step, ...]:
    """Return the steps in order."""
    return (
        _context(evidence),
        _step(
            evidence,
            name="events",
            words=Message("complete frees whose events are over"),
            does=Message(
                "A block that another stream used is free only when its event is over: asked at "
                "the begin of every request, never waited for. Counted: frees that waited."
            ),
            branches=(metrics.PENDING,),
            cost=_NOT_APART,
            seen=lambda own: _is_seen(own, metrics.EVENTS),
        ),
        _step(
            evidence,
            name="rounding",
            words=Message("round the size up to 512 B"),
            does=Message("1 B takes 512 B, 513 B take 1,024 B."),
            branches=(metrics.REQUESTS,),
            cost=_NOT_APART,
            seen=_rounds,
        ),
        _step(
            evidence,
            name="pool",
            words=Message("choose the pool: small or large; the stream"),
            does=Message(
                "Up to 1 MiB the small pool, else the large one; only free blocks of the "
                "request's own stream are looked at."
            ),
            branches=(metrics.REQUESTS,),
            cost=_NOT_APART,
            seen=lambda own: _is_seen(own, metrics.POOL) and _is_seen(own, metrics.STREAM),
        ),
        _step(
            evidence,
            name="search",
            words=Message("one search: the smallest free block that fits"),
            does=Message(
                "One best-fit search, for blocks of just that size and larger ones alike. Its "
                "cost: a block of just that size."
            ),
            branches=(metrics.WHOLE, metrics.CUT),
            cost=metrics.WHOLE,
            seen=lambda own: float(own.row(placement.BEST_FIT, subject=NATIVE)) == 1,
            finds=True,
        ),
        _step(
            evidence,
            name="callbacks",
            words=Message("none: callbacks may free blocks, search again"),
            does=Message("Memory that other processes had opened is released, for one."),
            branches=(),
            cost=_NO_COUNTER,
            why=_NO_COUNTER,
        ),
        _step(
            evidence,
            name="collection",
            words=Message("garbage collection, if it is set"),
            does=Message(
                "Only with garbage_collection_threshold, with a memory fraction and above the "
                "threshold: old free segments are released first."
            ),
            branches=(),
            cost=metrics.COLLECTED,
            why=_OFF,
            seen=_collects,
        ),
        _step(
            evidence,
            name="fraction",
            words=Message("above the memory fraction: refused"),
            does=Message("Before each cudaMalloc, without a call to the driver."),
            branches=(),
            cost=_NOT_APART,
            why=Message("not measured apart: such a request goes on as one that is refused"),
            seen=lambda own: _is_seen(own, metrics.FRACTION),
        ),
        _step(
            evidence,
            name="driver",
            words=Message("cudaMalloc: a new segment"),
            does=Message("Of 2 MiB, 20 MiB or the size itself; after a retry, too."),
            branches=(metrics.NEW, metrics.NEW_CUT),
            cost=metrics.NEW,
            seen=lambda own: _calls(own, metrics.NEW) == (1, 0, 0, 0),
            finds=True,
        ),
        _step(
            evidence,
            name="available",
            words=Message("refused: large blocks released, if set"),
            does=Message(
                "Only with max_split_size_mb: as many large cached blocks as the request needs, "
                "then cudaMalloc again. It counts as no retry."
            ),
            branches=(),
            cost=metrics.AVAILABLE,
            why=_OFF,
            seen=lambda own: _calls(own, metrics.AVAILABLE) == (1, 1, 0, 0),
            finds=True,
        ),
        _step(
            evidence,
            name="retry",
            words=Message("refused: the whole cache released, cudaMalloc again"),
            does=Message(
                "Pending frees are waited for, all wholly free segments released; it counts as a "
                "retry (num_alloc_retries)."
            ),
            branches=(metrics.RETRY,),
            cost=metrics.RETRY,
            seen=lambda own: _calls(own, metrics.RETRY) == (1, 1, 1, 0),
            finds=True,
        ),
        _step(
            evidence,
            name="oom",
            words=Message("refused again: out of memory"),
            does=Message("The error ends the request, and the workload."),
            branches=(metrics.OOM,),
            cost=metrics.OOM,
            seen=lambda own: _calls(own, metrics.OOM)[2:] == (1, 1),
        ),
        _step(
            evidence,
            name="split",
            words=Message("a block was found: it is cut if much is left"),
            does=Message(
                "A cached block and a new segment alike: from 512 B left in the small pool, above "
                "1 MiB in the large one. Its cost: a cached block that is cut."
            ),
            branches=(metrics.CUT, metrics.NEW_CUT),
            cost=metrics.CUT,
            seen=_cuts,
        ),
        _copy(evidence, metrics.PAGEABLE, Message("copy, from pageable memory")),
        _copy(evidence, metrics.PINNED, Message("or from pinned memory")),
    )


def _step(
    evidence: EvidenceCollector,
    *,
    name: str,
    words: Message,
    does: Message,
    branches: Sequence[str],
    cost: str | Message,
    why: Message | None = None,
    seen: _Seen | None = None,
    finds: bool = False,
) -> Step:
    """Return a step: `why` it has no count, the branch that is timed or why none is."""
    memories = tuple(metrics.MEMORIES)
    return Step(
        name,
        words,
        does,
        tuple(why or figure(evidence, _count(name, branches, memory)) for memory in memories),
        tuple(why or figure(evidence, _share(name, branches, memory)) for memory in memories),
        cost if isinstance(cost, Message) else _timed(evidence, _cost(cost)),
        "" if isinstance(cost, Message) else format_bytes(metrics.TIMED_BYTES),
        _verdict(evidence, seen),
        finds,
    )


def _context(evidence: EvidenceCollector) -> Step:
    once = Message("once in a process, before its first request")

    def take(own: EvidenceCollector) -> None:
        where = {"stage": context.CONTEXT, "module_loading": context.LAZY}
        row = own.row(context.STAGE_SECONDS, subject=context.TORCH, **where)
        own.show("context_time", Message("to create it"), row)

    return Step(
        "context",
        Message("a process's first call: its context"),
        Message("Once: it is no alternative to what follows."),
        (once, once),
        (once, once),
        _timed(evidence, take),
        "",
        None,
    )


def _copy(evidence: EvidenceCollector, host: str, words: Message) -> Step:
    size = metrics.TIMED_BYTES
    every = Message("every .cuda() of a tensor of the host; the workloads have no data")

    def take(own: EvidenceCollector) -> None:
        row = own.row(metrics.COPY_NS, subject=NATIVE, bytes=size, host=host)
        own.show(f"copy_{host}", words, row)

    return Step(
        f"copy-{host}",
        words,
        Message("The data itself, into a block that is there: no part of the allocator."),
        (every, every),
        (every, every),
        _timed(evidence, take),
        format_bytes(size),
        None,
    )


def figure(evidence: EvidenceCollector, take: _Take) -> Evidence | Text:
    """Return the evidence that is taken last, or the reason why there is none."""
    own = evidence.fresh()
    try:
        take(own)
    except MissingFigureError as missing:
        return missing.reason
    return own.collected[-1]


def _timed(evidence: EvidenceCollector, take: _Take) -> Evidence | Text:
    if evidence.panel.emulated:
        return NO_TIMES
    found = figure(evidence, take)
    if not isinstance(found, Evidence) or not found.cell.value:
        return found
    if found.cell.unit != "ns":
        return found
    return replace(found, cell=replace(found.cell, text=_microseconds(found.cell.value)))


def _microseconds(ns: float) -> str:
    """Return a time with three digits: all of the steps' are of this unit."""
    value = ns / 1000
    return f"{value:,.{max(0, 2 - floor(log10(value)))}f} µs"


def rows_of(evidence: EvidenceCollector, branches: Sequence[str], memory: str) -> list[Row]:
    """Return how many requests of each workload took these branches."""
    place = {"subject": NATIVE, "memory": memory, "branch": tuple(branches)}
    return evidence.required_rows(metrics.BRANCH_REQUESTS, **place)


def _count(name: str, branches: Sequence[str], memory: str) -> _Take:
    def take(own: EvidenceCollector) -> None:
        own.derive(name, Message("requests"), total, rows_of(own, branches, memory), "calls")

    return take


def _share(name: str, branches: Sequence[str], memory: str) -> _Take:
    def take(own: EvidenceCollector) -> None:
        parts = {branch: rows_of(own, (branch,), memory) for branch in branches}
        every = {row["workload"]: row for row in rows_of(own, (metrics.REQUESTS,), memory)}
        pairs = [
            (row, every[row["workload"]])
            for rows in parts.values()
            for row in rows
            if row["workload"] in every
        ]

        def share(pairs: Sequence[tuple[float, float]]) -> float:
            # Each branch brings the whole of all requests along.
            return ratio(pairs) * len(branches)

        own.derive(name, Message("share of all requests"), share, pairs, "share")

    return take


def _cost(branch: str) -> _Take:
    def take(own: EvidenceCollector) -> None:
        size = metrics.TIMED_BYTES
        row = own.row(metrics.BRANCH_NS, subject=NATIVE, branch=branch, bytes=size)
        own.show("cost", Message("one such request"), row)

    return take


def _verdict(evidence: EvidenceCollector, seen: _Seen | None) -> Ruling:
    if seen is None:
        return Ruling.NOT_MEASURED
    try:
        return Ruling.of(seen(evidence.fresh()))
    except MissingFigureError:
        return Ruling.NOT_MEASURED


def _is_seen(own: EvidenceCollector, step: str) -> bool:
    return float(own.row(metrics.STEP_SEEN, subject=NATIVE, step=step)) == 1


def _rounds(own: EvidenceCollector) -> bool:
    return all(
        float(own.row(metrics.TAKEN_BYTES, subject=NATIVE, bytes=size)) == taken
        for size, taken in _TAKEN.items()
    )


def _calls(own: EvidenceCollector, branch: str) -> tuple[float, ...]:
    """Return what the crafted program of a branch adds to each counter."""
    return tuple(
        float(own.row(metrics.CRAFTED_CALLS, subject=NATIVE, branch=branch, counter=counter))
        for counter in metrics.COUNTERS
    )


def _collects(own: EvidenceCollector) -> bool:
    allocs, frees, retries, _ = _calls(own, metrics.COLLECTED)
    idle = (_calls(own, branch) for branch in (metrics.UNCOLLECTED, metrics.NO_FRACTION))
    return allocs == 1 and frees > 0 and retries == 0 and all(one == (1, 0, 0, 0) for one in idle)


def _cuts(own: EvidenceCollector) -> bool:
    memory = metrics.UNLIMITED
    return all(sum(rows_of(own, (one,), memory)) > 0 for one in (metrics.CUT, metrics.NEW_CUT))
