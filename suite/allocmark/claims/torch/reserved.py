"""What memory_reserved() counts."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import difference, total
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import kept, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    row = shown(evidence, pressure.RESERVED, pressure.TAKEN)
    reserved = evidence.show("reserved", Message("memory_reserved with every block in use"), row)
    cached = evidence.derive(
        "cached",
        Message("of it cached, that is free"),
        difference,
        [(row, shown(evidence, pressure.ALLOCATED, pressure.TAKEN))],
        "bytes",
    )
    mapped = evidence.derive(
        "mapped",
        Message("free by the block map"),
        total,
        [
            kept(evidence, why, pressure.TAKEN)
            for why in (pressure.INACTIVE_SPLIT, pressure.FREE_SEGMENTS)
        ],
        "bytes",
    )
    agrees = cached == mapped
    return evidence.verdict(
        Ruling.of(agrees and reserved == cached, in_part=agrees),
        Message(
            "It holds what is in use too: of {reserved} only {cached} are cached. The cache is "
            "memory_reserved less memory_allocated."
        ),
        Message("It counts every segment held from the driver, whatever is in it."),
    )


CLAIM = Claim(
    id="pt-counters-cached",
    section=Section.TORCH,
    order=6,
    statement=Message("memory_reserved() is what is cached."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
