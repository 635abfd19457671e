"""When BFC merges free chunks."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.tensorflow import placed_by_bfc
from allocmark.schema.metrics import placement
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    what = Message("merged with plenty left to take (1: yes)")
    merges = evidence.show("merges", what, placed_by_bfc(evidence, placement.MERGES_AT_FREE))
    return evidence.verdict(
        Ruling.of(merges == 0),
        Message(
            "Neighbours were one right after the free, while a larger hole was there to be used."
        ),
        Message(
            "A chunk is merged with its free neighbours when it is freed, not when memory is short."
        ),
    )


CLAIM = Claim(
    id="tf-bfc-when",
    section=Section.TENSORFLOW,
    order=5,
    statement=Message("BFC merges free chunks when nothing fits."),
    experiments=(placement.EXPERIMENT,),
    rule=_rule,
)
