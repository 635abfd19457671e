"""What TensorFlow's default mode takes, when and of which GPUs."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.tensorflow_gpu import GREEDY
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.rows import metered
from allocmark.claims.shared.tensorflow import NEARLY_ALL, share_taken
from allocmark.schema.metrics import multi_gpu
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message

_HALF = 0.5


@partial(
    Claim,
    id="tf-greedy",
    place=(Section.TENSORFLOW, 1),
    statement=Message("By default TensorFlow takes nearly all memory that it can see."),
    experiments=(policy.EXPERIMENT,),
    first_screen=FirstScreen(4, "share", Message("of the card taken by TensorFlow's first tensor")),
)
def _greedy(evidence: EvidenceCollector) -> Verdict:
    share = share_taken(evidence, "share", policy.FIRST_TENSOR)
    held = metered(evidence, policy.HELD_BYTES, subject=GREEDY, point=policy.FIRST_TENSOR)
    evidence.show("held", Message("held then"), held)
    return evidence.verdict(
        Ruling.of(share >= NEARLY_ALL, in_part=share > _HALF),
        Message("{held}, {share} of the card, for one tensor of 1 MiB."),
        Message(
            "BFC asks the driver once for what is free, less a reserve, and cuts tensors out of it."
        ),
    )


@partial(
    Claim,
    id="tf-greedy-when",
    place=(Section.TENSORFLOW, 2),
    statement=Message("TensorFlow takes nearly all memory as soon as it starts."),
    experiments=(policy.EXPERIMENT,),
)
def _greedy_when(evidence: EvidenceCollector) -> Verdict:
    created = share_taken(evidence, "created", policy.CREATED)
    first = share_taken(evidence, "first", policy.FIRST_TENSOR)
    return evidence.verdict(
        Ruling.of(created >= NEARLY_ALL, in_part=first >= NEARLY_ALL),
        Message(
            "{created} of the card is held when the device is created, {first} with the first "
            "tensor: import and device alone take no more than the context."
        ),
        Message("The region is asked for with the first allocation."),
    )


@partial(
    Claim,
    id="tf-greedy-gpus",
    place=(Section.TENSORFLOW, 3),
    statement=Message("TensorFlow takes nearly all memory of all visible GPUs."),
    experiments=(multi_gpu.EXPERIMENT,),
)
def _greedy_gpus(evidence: EvidenceCollector) -> Verdict:
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
