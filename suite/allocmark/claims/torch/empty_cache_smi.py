"""What nvidia-smi shows after empty_cache()."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import kept, released
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    whole, half = released(evidence)
    what = Message("free beside live blocks, and kept")
    evidence.show("pinned", what, kept(evidence, pressure.INACTIVE_SPLIT, pressure.HALF_EMPTIED))
    return evidence.verdict(
        Ruling.of(whole <= 0, in_part=half <= 0),
        Message(
            "Only while live blocks hold the segments: {half} are given back then and {pinned} "
            "stay. When all is freed the figure falls by {returned}."
        ),
        Message("Only whole segments can be returned; context and modules stay in any case."),
    )


CLAIM = Claim(
    id="pt-empty-cache-smi",
    section=Section.TORCH,
    order=3,
    statement=Message("After empty_cache() what nvidia-smi shows may not change."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
