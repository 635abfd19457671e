"""memory_reserved() less memory_allocated() is the cache."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import POINTS, kept, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


def _most_off(points: Sequence[tuple[float, float, float, float]]) -> float:
    """Return the most that reserved is off allocated and both kinds of free blocks together."""
    return max(abs(reserved - sum(blocks)) for reserved, *blocks in points)


def _rule(evidence: EvidenceCollector) -> Verdict:
    wrong = evidence.derive(
        "wrong",
        Message("most that the difference is off the free blocks"),
        _most_off,
        [
            (
                shown(evidence, pressure.RESERVED, point),
                shown(evidence, pressure.ALLOCATED, point),
                kept(evidence, pressure.INACTIVE_SPLIT, point),
                kept(evidence, pressure.FREE_SEGMENTS, point),
            )
            for point in POINTS
        ],
        "bytes",
    )
    return evidence.verdict(
        Ruling.of(wrong == 0),
        Message("Off by {wrong} from the free blocks of the block map at every point."),
        Message("A segment consists of live and free blocks and of nothing else."),
    )


CLAIM = Claim(
    id="rule-difference",
    section=Section.DIAGNOSIS,
    order=2,
    statement=Message("memory_reserved() less memory_allocated() is the cache."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
