"""Where empty_cache() gives the cache back to."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import released, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    whole, _ = released(evidence)
    what = Message("still reserved after that")
    left = evidence.show("left", what, shown(evidence, pressure.RESERVED, pressure.ALL_EMPTIED))
    return evidence.verdict(
        Ruling.of(whole <= 0, in_part=left != 0),
        Message(
            "{returned} go back to the driver, and nvidia-smi shows it at once; with every second "
            "block alive {half} do."
        ),
        Message(
            "empty_cache calls cudaFree for each segment without a live block. The cache already "
            "is PyTorch's own pool: there is nothing to give back to it."
        ),
    )


CLAIM = Claim(
    id="pt-empty-cache",
    section=Section.TORCH,
    order=2,
    statement=Message("empty_cache() returns the cache to PyTorch's own pool, not to the system."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
    first_screen=FirstScreen(2, "returned", Message("given back to the driver by empty_cache()")),
)
