"""What memory_summary() shows."""

from __future__ import annotations

from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import share_of_positives
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    agrees = evidence.derive(
        "agrees",
        Message("points at which it says what the block map says"),
        share_of_positives,
        evidence.required_rows(pressure.SUMMARY_AGREES, subject=NATIVE),
        "share",
    )
    what = Message("free beside live blocks by the summary")
    pinned = evidence.show(
        "pinned", what, shown(evidence, pressure.SUMMARY_NON_RELEASABLE, pressure.HALF_FREED)
    )
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


CLAIM = Claim(
    id="pt-summary",
    section=Section.TORCH,
    order=4,
    statement=Message("memory_summary() shows what is used, cached and fragmented."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
