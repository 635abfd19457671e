"""When the greedy mode takes it."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.tensorflow import NEARLY_ALL, share_taken
from allocmark.schema.metrics import tensorflow_policy
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    created = share_taken(evidence, "created", tensorflow_policy.CREATED)
    first = share_taken(evidence, "first", tensorflow_policy.FIRST_TENSOR)
    return evidence.verdict(
        Ruling.of(created >= NEARLY_ALL, in_part=first >= NEARLY_ALL),
        Message(
            "{created} of the card is held when the device is created, {first} with the first "
            "tensor: import and device alone take no more than the context."
        ),
        Message("The region is asked for with the first allocation."),
    )


CLAIM = Claim(
    id="tf-greedy-when",
    section=Section.TENSORFLOW,
    order=2,
    statement=Message("TensorFlow takes nearly all memory as soon as it starts."),
    experiments=(tensorflow_policy.EXPERIMENT,),
    rule=_rule,
)
