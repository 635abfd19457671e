"""What memory_summary(), memory_allocated() and memory_reserved() count."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import Pairs, difference, share_of_positives, total
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import POINTS, kept, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


@partial(
    Claim,
    id="pt-summary",
    place=(Section.TORCH, 4),
    statement=Message("memory_summary() shows what is used, cached and fragmented."),
    experiments=(pressure.EXPERIMENT,),
)
def _summary(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(pressure.SUMMARY_AGREES, subject=NATIVE)
    what = Message("points at which it says what the block map says")
    agrees = evidence.derive("agrees", what, share_of_positives, rows, "share")
    row = shown(evidence, pressure.SUMMARY_NON_RELEASABLE, pressure.HALF_FREED)
    pinned = evidence.show("pinned", Message("non-releasable memory in memory_summary()"), row)
    holds = agrees == 1 and pinned > 0
    condition = Message(
        "The line of non-releasable memory does, {pinned} after every second block was freed."
    )
    expandable = 1.0
    if rows := evidence.rows(pressure.SUMMARY_AGREES, subject=EXPANDABLE):
        what = Message("the same with expandable segments")
        expandable = evidence.derive("expandable", what, share_of_positives, rows, "share")
        condition = Message(
            "The line of non-releasable memory does, {pinned} after every second block was freed. "
            "With expandable segments it says so at {expandable} of the points."
        )
    return evidence.verdict(
        Ruling.of(holds and expandable >= 1, in_part=holds),
        condition,
        Message(
            "It sums the split blocks that are free. Expandable segments give single pages back, "
            "and their free blocks are not counted there."
        ),
    )


def largest_difference(pairs: Pairs) -> float:
    """Return the largest difference of two that should be the same."""
    return max(abs(first - second) for first, second in pairs)


@partial(
    Claim,
    id="pt-counters",
    place=(Section.TORCH, 5),
    statement=Message("memory_allocated() is what is used."),
    experiments=(pressure.EXPERIMENT,),
)
def _allocated(evidence: EvidenceCollector) -> Verdict:
    pairs = [
        (shown(evidence, pressure.ALLOCATED, point), kept(evidence, pressure.LIVE_BLOCKS, point))
        for point in POINTS
    ]
    what = Message("max difference memory_allocated() vs memory_snapshot()")
    wrong = evidence.derive("wrong", what, largest_difference, pairs, "bytes")
    return evidence.verdict(
        Ruling.of(wrong == 0, in_part=True),
        Message(
            "Off by {wrong} from the block map at every point. It counts blocks of this process's "
            "allocator, so neither context nor what libraries take themselves."
        ),
        Message("The allocator adds and subtracts each block's rounded size."),
    )


@partial(
    Claim,
    id="pt-counters-cached",
    place=(Section.TORCH, 6),
    statement=Message("memory_reserved() is what is cached."),
    experiments=(pressure.EXPERIMENT,),
)
def _reserved(evidence: EvidenceCollector) -> Verdict:
    row = shown(evidence, pressure.RESERVED, pressure.TAKEN)
    reserved = evidence.show("reserved", Message("memory_reserved with every block in use"), row)
    pair = row, shown(evidence, pressure.ALLOCATED, pressure.TAKEN)
    what = Message("of it cached, that is free")
    cached = evidence.derive("cached", what, difference, [pair], "bytes")
    free = pressure.INACTIVE_SPLIT, pressure.FREE_SEGMENTS
    rows = [kept(evidence, why, pressure.TAKEN) for why in free]
    mapped = evidence.derive("mapped", Message("free by the block map"), total, rows, "bytes")
    agrees = cached == mapped
    return evidence.verdict(
        Ruling.of(agrees and reserved == cached, in_part=agrees),
        Message(
            "It holds what is in use too: of {reserved} only {cached} are cached. The cache is "
            "memory_reserved less memory_allocated."
        ),
        Message("It counts every segment held from the driver, whatever is in it."),
    )
