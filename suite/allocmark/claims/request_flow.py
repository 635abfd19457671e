"""The way of a request from ``.cuda()`` to memory, and each branch's figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims import context as contexts
from allocmark.claims.core.claim import Claim, Evidence, Ruling, Section, Verdict
from allocmark.claims.core.derivations import ratio, total, zeros
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError
from allocmark.claims.core.judging import NO_TIMES
from allocmark.claims.shared.rows import pairs
from allocmark.claims.shared.torch import call_ns
from allocmark.schema.metrics import context, fragmentation, latency, pressure
from allocmark.system.message import Message, Text

_ALLOCATION = Message("of an allocation, 2 MiB")
_SEGMENT = Message("of one segment, 2 MiB")
_Take = Callable[[EvidenceCollector], float]
"""What takes a figure as evidence."""


def _hits(evidence: EvidenceCollector) -> float:
    calls = pairs(evidence, fragmentation.DRIVER_ALLOCS, NATIVE, NO_CACHE)
    what = Message("requests served from the cache")
    return evidence.derive("hits", what, lambda calls: 1 - ratio(calls), calls, "share")


def _misses(evidence: EvidenceCollector) -> float:
    calls = pairs(evidence, fragmentation.DRIVER_ALLOCS, NATIVE, NO_CACHE)
    what = Message("requests for which the driver is asked")
    return evidence.derive("misses", what, ratio, calls, "share")


def _driver_calls(evidence: EvidenceCollector) -> float:
    rows = evidence.required_rows(fragmentation.DRIVER_ALLOCS, subject=NATIVE)
    what = Message("requests to the driver, all workloads")
    return evidence.derive("calls", what, total, rows, "calls")


def _retries(evidence: EvidenceCollector) -> float:
    rows = evidence.required_rows(pressure.RETRIES, subject=NATIVE)
    what = Message("retries, runs in 1 to 2 live peaks")
    return evidence.derive("retries", what, total, rows, "retries")


def _failures(evidence: EvidenceCollector) -> float:
    rows = evidence.required_rows(pressure.COMPLETED, subject=NATIVE)
    return evidence.derive("failed", Message("runs that failed all the same"), zeros, rows, "runs")


@dataclass(frozen=True, slots=True)
class Branch:
    """A step of the way: what happens, what it costs, and how often it is taken.

    A figure is evidence, or the reason why there is none.
    """

    name: str
    words: Message
    cost: Evidence | Text
    taken: Evidence | Text


def branches(evidence: EvidenceCollector) -> tuple[Branch, ...]:
    """Return the steps in order, from what is tried first."""
    return (
        Branch(
            name="context",
            words=Message("a process's first call: its context"),
            cost=_timed(evidence, _context_cost),
            taken=_timed(evidence, _context_bytes),
        ),
        Branch(
            name="hit",
            words=Message("the cache has a free block that fits"),
            cost=_call(evidence, "hit_time", _ALLOCATION, latency.HIT, latency.ALLOC),
            taken=_figure(evidence, _hits),
        ),
        Branch(
            name="split",
            words=Message("a larger block is cut, the rest stays free"),
            cost=Message("no call of its own: it is part of a hit's time"),
            taken=Message("the allocator counts the split blocks that are free, not the cuts"),
        ),
        Branch(
            name="miss",
            words=Message("the driver is asked for a segment"),
            cost=_call(evidence, "miss_time", _ALLOCATION, latency.MISS, latency.ALLOC),
            taken=_figure(evidence, _misses),
        ),
        Branch(
            name="give-back",
            words=Message("refused: free segments go back to the driver"),
            cost=_call(evidence, "give_back_time", _SEGMENT, latency.GIVE_BACK, latency.FREE),
            taken=_figure(evidence, _retries),
        ),
        Branch(
            name="retry",
            words=Message("the driver is asked again"),
            cost=_timed(evidence, _retry_cost),
            taken=_figure(evidence, _retries),
        ),
        Branch(
            name="oom",
            words=Message("refused again: out of memory"),
            cost=Message("the error ends the request"),
            taken=_figure(evidence, _failures),
        ),
    )


def _figure(evidence: EvidenceCollector, take: _Take) -> Evidence | Text:
    """Return the evidence that is taken last, or the reason why there is none."""
    own = evidence.fresh()
    try:
        take(own)
    except MissingFigureError as missing:
        return missing.reason
    return own.collected[-1]


def _timed(evidence: EvidenceCollector, take: _Take) -> Evidence | Text:
    return NO_TIMES if evidence.panel.emulated else _figure(evidence, take)


def _call(
    evidence: EvidenceCollector, name: str, what: Message, path: str, call: str
) -> Evidence | Text:
    return _timed(evidence, lambda own: own.show(name, what, call_ns(own, path, call)))


def _context_cost(evidence: EvidenceCollector) -> float:
    stage = {"stage": context.CONTEXT, "module_loading": context.LAZY}
    row = evidence.row(context.STAGE_SECONDS, subject=context.TORCH, **stage)
    return evidence.show("context_time", Message("to create it"), row)


def _context_bytes(evidence: EvidenceCollector) -> float:
    row = contexts.total(evidence, context.TORCH, context.CONTEXT)
    return evidence.show("context_bytes", Message("once in a process; it holds then"), row)


def _retry_cost(evidence: EvidenceCollector) -> float:
    calls = [
        call_ns(evidence, latency.GIVE_BACK, latency.FREE),
        call_ns(evidence, latency.MISS, latency.ALLOC),
    ]
    what = Message("giving one segment back, then a miss, 2 MiB")
    return evidence.derive("retry_time", what, total, calls, "ns")


@partial(
    Claim,
    id="flow",
    place=(Section.FLOW, 1),
    statement=Message(
        "From .cuda() to memory: the cache is searched, then the driver asked, then the cache "
        "emptied and the driver asked again."
    ),
    experiments=(fragmentation.EXPERIMENT, pressure.EXPERIMENT),
)
def _flow(evidence: EvidenceCollector) -> Verdict:
    served, called = _hits(evidence), _driver_calls(evidence)
    again, failed = _retries(evidence), _failures(evidence)
    steps = [served > 0, called > 0, again >= failed, failed == 0 or again > 0]
    return evidence.verdict(
        Ruling.of(all(steps), in_part=any(steps)),
        Message(
            "Cache first: it serves {hits} of requests. Then the driver, {calls} times over all "
            "workloads. When it refuses, the cache is emptied and the request tried again, "
            "{retries} times in short memory (runs that failed all the same: {failed})."
        ),
        Message("A step is taken only when the one before it did not do."),
    )
