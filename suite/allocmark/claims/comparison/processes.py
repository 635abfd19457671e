"""Whether two processes of a framework share what they take."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.tensorflow_gpu import GROWTH
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import positives
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.halves import both
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message, Text, sentences
from allocmark.system.units import MIB


@partial(
    Claim,
    id="cmp-process-pt",
    place=(Section.COMPARISON, 6),
    statement=Message("Each PyTorch process has an allocator of its own."),
    experiments=(policy.EXPERIMENT,),
)
def _torch(evidence: EvidenceCollector) -> Verdict:
    shared, sharing = _shared(evidence, "torch", "PyTorch")
    return evidence.verdict(Ruling.of(shared < MIB), sharing, _CAUSE)


@partial(
    Claim,
    id="cmp-process-tf",
    place=(Section.COMPARISON, 7),
    statement=Message("TensorFlow shares memory between processes."),
    experiments=(policy.EXPERIMENT,),
)
def _tensorflow(evidence: EvidenceCollector) -> Verdict:
    shared, sharing = _shared(evidence, GROWTH, "TensorFlow")
    return evidence.verdict(Ruling.of(shared >= MIB), sharing, _CAUSE)


_CAUSE = Message("A CUDA address space belongs to one process, and so does what allocates in it.")


def _shared(evidence: EvidenceCollector, subject: str, name: str) -> tuple[float, Text]:
    """Take what two processes share as evidence, and the ways to open the other's memory."""
    what = Message("shared by two processes (what the second takes less than the first)")
    shared = evidence.show("shared", what, evidence.row(policy.SHARED_BYTES, subject=subject))
    by_request: Text = ""
    if opened := evidence.rows(policy.IPC_OPENED, subject=subject):
        what = Message("ways in which one opened the other's memory")
        evidence.derive("opened", what, positives, opened, "count")
        by_request = Message(
            "If the program asks for it, the other can open a block that one exports (ways that "
            "work: {opened})."
        )
    return shared, sentences(
        Message("Two processes of {name} share {shared} of what they take.", name=name), by_request
    )


OF_BOTH = Claim(
    both(_torch, _tensorflow),
    composite=True,
    id="cmp-process",
    place=(Section.COMPARISON, 5),
    statement=Message(
        "PyTorch has an allocator for each process; TensorFlow shares between processes."
    ),
    experiments=(policy.EXPERIMENT,),
)
