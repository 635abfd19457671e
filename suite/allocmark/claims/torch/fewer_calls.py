"""Large blocks save requests to the driver."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import ratio
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.workloads import pairs
from allocmark.schema.metrics import fragmentation
from allocmark.system.message import Message

_FEWER = 0.5


def _rule(evidence: EvidenceCollector) -> Verdict:
    calls = pairs(evidence, fragmentation.DRIVER_ALLOCS, NATIVE, NO_CACHE)
    what = Message("requests to the driver with cache over those without")
    share = evidence.derive("share", what, ratio, calls, "share")
    evidence.derive(
        "saved",
        Message("requests saved over all workloads"),
        lambda calls: sum(without - cached for cached, without in calls),
        calls,
        "calls",
    )
    return evidence.verdict(
        Ruling.of(share < _FEWER, in_part=share < 1),
        Message(
            "Of the requests to the driver without a cache {share} are left, {saved} fewer over "
            "all workloads: by large blocks and their reuse together. Returns are not counted."
        ),
        Message("One segment serves many requests, one after another and side by side."),
    )


CLAIM = Claim(
    id="pt-fewer-calls",
    section=Section.TORCH_TRAITS,
    order=2,
    statement=Message("Taking large blocks saves CUDA calls."),
    experiments=(fragmentation.EXPERIMENT,),
    rule=_rule,
)
