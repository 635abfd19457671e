"""What a second process gets beside one that grows."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import GROWTH
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    pair = {"subject": GROWTH, "second": GROWTH}
    failed = evidence.show(
        "failed", Message("second process failed"), evidence.row(policy.PAIR_FAILED, **pair)
    )
    what = Message("tensors of the second one")
    evidence.show(
        "second_live", what, evidence.row(policy.PAIR_LIVE_BYTES, process=policy.SECOND, **pair)
    )
    return evidence.verdict(
        Ruling.of(failed == 0),
        Message(
            "Two growing processes: the second gets {second_live} of tensors. It holds as long as "
            "both fit at their peaks, since neither returns anything."
        ),
        Message("Each takes regions only as its own tensors need them."),
    )


CLAIM = Claim(
    id="two-models-growth",
    section=Section.TENSORFLOW,
    order=10,
    statement=Message("With memory growth two models on one machine both get what they need."),
    experiments=(policy.EXPERIMENT,),
    rule=_rule,
)
