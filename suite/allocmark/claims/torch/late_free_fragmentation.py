"""Whether memory that stays cached makes fragmentation worse."""

from __future__ import annotations

from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE, NO_CACHE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import larger, median
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.workloads import pairs
from allocmark.schema.metrics import fragmentation
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    waste = pairs(evidence, fragmentation.WASTE_RATIO, NATIVE, NO_CACHE)
    cached, without = zip(*waste, strict=True)
    worse = evidence.derive(
        "worse", Message("workloads with more waste with the cache"), larger, waste, "count"
    )
    tried = evidence.count("tried", Message("workloads"), waste)
    evidence.derive("with", Message("median waste with the cache"), median, cached, "share")
    evidence.derive("without", Message("median waste without it"), median, without, "share")
    evidence.derive(
        "expandable",
        Message("workloads with more waste with expandable segments"),
        larger,
        pairs(evidence, fragmentation.WASTE_RATIO, EXPANDABLE, NO_CACHE),
        "count",
    )
    return evidence.verdict(
        Ruling.of(worse == tried, in_part=worse > 0),
        Message(
            "More waste in {worse} of {tried} workloads: {with} against {without} (medians); with "
            "expandable segments in {expandable} only."
        ),
        Message(
            "A block that stays alive holds its whole segment, and what is free in it serves "
            "smaller requests only."
        ),
    )


CLAIM = Claim(
    id="pt-late-free-frag",
    section=Section.TORCH_TRAITS,
    order=7,
    statement=Message("Fragmentation gets worse because freed memory stays cached."),
    experiments=(fragmentation.EXPERIMENT,),
    rule=_rule,
)
