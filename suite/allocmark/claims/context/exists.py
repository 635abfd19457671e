"""A context is created first and takes device memory of its own."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.context import total
from allocmark.schema.metrics import context
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    what = Message("taken when a context is created, nothing allocated")
    taken = evidence.show("context", what, total(evidence, context.DRIVER, context.CONTEXT))
    return evidence.verdict(
        Ruling.of(taken > 0),
        Message("{context} in a process that has allocated nothing."),
        Message("A context holds stacks for kernels, the heap and modules of its process."),
    )


CLAIM = Claim(
    id="ctx-exists",
    section=Section.CONTEXT,
    order=1,
    statement=Message("Any CUDA use first creates a context that takes device memory of its own."),
    experiments=(context.EXPERIMENT,),
    rule=_rule,
    on_context=True,
)
