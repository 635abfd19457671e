"""What memory_limit limits."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.meters import metered
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message

_LITTLE = 0.1


def _rule(evidence: EvidenceCollector) -> Verdict:
    what = Message("memory_limit that was set")
    limit = evidence.show("limit", what, evidence.row(policy.LIMIT_BYTES, subject=LIMIT))
    what = Message("held at the live peak")
    held = evidence.show(
        "held", what, metered(evidence, policy.HELD_BYTES, subject=LIMIT, point=policy.LIVE_PEAK)
    )
    what = Message("beyond the limit without the context")
    rest = evidence.show(
        "rest", what, metered(evidence, policy.ABOVE_LIMIT_BYTES, subject=LIMIT, why=policy.REST)
    )
    return evidence.verdict(
        Ruling.of(held <= limit, in_part=rest <= _LITTLE * limit),
        Message(
            "Tensors stay within {limit}, but the process holds {held}: the context is not counted."
        ),
        Message(
            "The limit is the size of BFC's region. Context, modules and libraries lie outside it, "
            "and the whole region is taken at once."
        ),
    )


CLAIM = Claim(
    id="tf-limit",
    section=Section.TENSORFLOW,
    order=7,
    statement=Message("memory_limit=4096 limits TensorFlow to 4 GB."),
    experiments=(policy.EXPERIMENT,),
    rule=_rule,
    on_context=True,
)
