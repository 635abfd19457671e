"""Of which GPUs the greedy mode takes it."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import GREEDY
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.tensorflow import NEARLY_ALL
from allocmark.schema.metrics import multi_gpu
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    where = {"subject": GREEDY, "visible": multi_gpu.ALL, "point": multi_gpu.FIRST_TENSOR}
    shares = evidence.required_rows(multi_gpu.MODE_SHARE, **where)
    what = Message("share of the GPU least taken, a tensor on the first")
    least = evidence.derive("least", what, min, shares, "share")
    evidence.count("gpus", Message("GPUs"), shares)
    most = evidence.derive("most", Message("share of the GPU most taken"), max, shares, "share")
    return evidence.verdict(
        Ruling.of(least >= NEARLY_ALL, in_part=most >= NEARLY_ALL),
        Message(
            "A tensor on the first of {gpus} GPUs: {most} of the most taken GPU is held, {least} "
            "of the least taken."
        ),
        Message("Each device has an allocator of its own, which takes its region when it is used."),
    )


CLAIM = Claim(
    id="tf-greedy-gpus",
    section=Section.TENSORFLOW,
    order=3,
    statement=Message("TensorFlow takes nearly all memory of all visible GPUs."),
    experiments=(multi_gpu.EXPERIMENT,),
    rule=_rule,
)
