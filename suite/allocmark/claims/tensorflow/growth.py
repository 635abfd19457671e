"""With memory growth TensorFlow takes memory as needed."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import GROWTH
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message

_LITTLE = 0.1


def _rule(evidence: EvidenceCollector) -> Verdict:
    live, beyond, steps, largest = (
        evidence.row(metric, subject=GROWTH)
        for metric in (
            policy.LIVE_BYTES,
            policy.BEYOND_NEED_BYTES,
            policy.STEPS,
            policy.LARGEST_STEP_BYTES,
        )
    )
    evidence.show("beyond", Message("most held beyond need"), beyond)
    evidence.show("live", Message("needed in the end"), live)
    evidence.show("steps", Message("requests to the driver"), steps)
    evidence.show("largest", Message("largest of them"), largest)
    return evidence.verdict(
        Ruling.of(beyond <= _LITTLE * live, in_part=beyond < live),
        Message(
            "In {steps} steps, the largest {largest}: up to {beyond} more than needed on the way "
            "to {live}."
        ),
        Message("Regions double in size as they are taken, and none is returned."),
    )


CLAIM = Claim(
    id="tf-growth",
    section=Section.TENSORFLOW,
    order=6,
    statement=Message("With memory growth TensorFlow takes memory as needed."),
    experiments=(policy.EXPERIMENT,),
    rule=_rule,
)
