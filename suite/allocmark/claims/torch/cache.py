"""Freed memory stays in PyTorch's cache and is reused."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import median
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import shown
from allocmark.schema.metrics import fragmentation, pressure
from allocmark.system.message import Message

_MOSTLY = 0.5


def _rule(evidence: EvidenceCollector) -> Verdict:
    what = Message("reserved when all blocks have been freed")
    reserved = evidence.show(
        "reserved", what, shown(evidence, pressure.RESERVED, pressure.ALL_FREED)
    )
    hits = evidence.required_rows(fragmentation.HIT_SHARE, subject=NATIVE)
    usual = evidence.derive(
        "hits", Message("requests served from the cache"), median, hits, "share"
    )
    least = evidence.derive("least", Message("the fewest in a workload"), min, hits, "share")
    reused = reserved > 0 and usual > 0
    return evidence.verdict(
        Ruling.of(reused and least > _MOSTLY, in_part=reused),
        Message(
            "{reserved} stay reserved when all is freed; of the requests {hits} are served "
            "without the driver (median of the workloads, at least {least})."
        ),
        Message(
            "A free puts the block on a list of its stream, and the next request looks there first."
        ),
    )


CLAIM = Claim(
    id="pt-cache",
    section=Section.TORCH,
    order=1,
    statement=Message("PyTorch keeps freed memory and reuses it instead of asking CUDA each time."),
    experiments=(pressure.EXPERIMENT, fragmentation.EXPERIMENT),
    rule=_rule,
    first_screen=FirstScreen(6, "hits", Message("of requests served from PyTorch's cache")),
)
