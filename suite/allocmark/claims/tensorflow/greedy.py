"""By default TensorFlow takes nearly all memory."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import GREEDY
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.meters import metered
from allocmark.claims.shared.tensorflow import NEARLY_ALL, share_taken
from allocmark.schema.metrics import tensorflow_policy
from allocmark.schema.metrics.tensorflow_policy import FIRST_TENSOR, HELD_BYTES
from allocmark.system.message import Message

_HALF = 0.5


def _rule(evidence: EvidenceCollector) -> Verdict:
    share = share_taken(evidence, "share", FIRST_TENSOR)
    held = metered(evidence, HELD_BYTES, subject=GREEDY, point=FIRST_TENSOR)
    evidence.show("held", Message("held then"), held)
    return evidence.verdict(
        Ruling.of(share >= NEARLY_ALL, in_part=share > _HALF),
        Message("{held}, {share} of the card, for one tensor of 1 MiB."),
        Message(
            "BFC asks the driver once for what is free, less a reserve, and cuts tensors out of it."
        ),
    )


CLAIM = Claim(
    id="tf-greedy",
    section=Section.TENSORFLOW,
    order=1,
    statement=Message("By default TensorFlow takes nearly all memory that it can see."),
    experiments=(tensorflow_policy.EXPERIMENT,),
    rule=_rule,
    first_screen=FirstScreen(4, "share", Message("of the card taken by TensorFlow's first tensor")),
)
