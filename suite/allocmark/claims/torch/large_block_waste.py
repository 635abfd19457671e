"""Large blocks may waste memory."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import median
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.schema.metrics import fragmentation
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(fragmentation.WASTE_RATIO, subject=NATIVE)
    usual = evidence.derive(
        "median", Message("median waste of the workloads"), median, rows, "share"
    )
    most = evidence.derive("most", Message("most waste"), max, rows, "share")
    evidence.derive("least", Message("least waste"), min, rows, "share")
    return evidence.verdict(
        Ruling.of(most > 0 and usual > 0),
        Message(
            "{median} of the reserved bytes were never asked for (median), {least} to {most} "
            "by workload."
        ),
        Message("A segment that is kept for one size class cannot serve another."),
    )


CLAIM = Claim(
    id="pt-big-block-waste",
    section=Section.TORCH_TRAITS,
    order=3,
    statement=Message("Taking large blocks may waste memory."),
    experiments=(fragmentation.EXPERIMENT,),
    rule=_rule,
    first_screen=FirstScreen(
        7, "most", Message("of PyTorch's peak reserved memory wasted by the worst workload")
    ),
)
