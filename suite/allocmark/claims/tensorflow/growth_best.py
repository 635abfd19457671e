"""Whether memory growth is the mode to recommend."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import GROWTH, LIMIT
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import larger
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.workloads import beyond_region, in_one_region, pairs
from allocmark.schema.metrics import capacity, fragmentation, tensorflow_policy
from allocmark.system.message import Message

_HALF = 0.5


def _rule(evidence: EvidenceCollector) -> Verdict:
    what = Message("second process failed")
    failed = evidence.show(
        "failed", what, evidence.row(tensorflow_policy.PAIR_FAILED, subject=GROWTH, second=GROWTH)
    )
    searched = evidence.rows(capacity.CAPACITY_RATIO, subject=LIMIT)
    worse, tried, comparison = (_by_capacity if searched else _by_reserved)(evidence)
    room = Message("It leaves room for a second process, but")
    if failed:
        room = Message("It leaves a second process no room, and")
    return evidence.verdict(
        Ruling.of(not failed and worse <= _HALF * tried, in_part=not failed),
        Message(
            "{room} {worse} of {tried} workloads {comparison}", room=room, comparison=comparison
        ),
        Message(
            "Regions double in size, and free chunks of different regions never merge. Alone on a "
            "card, one region wastes less."
        ),
    )


def _by_capacity(evidence: EvidenceCollector) -> tuple[float, float, Message]:
    """Compare the smallest capacities with growth and in one region."""
    ratios = pairs(evidence, capacity.CAPACITY_RATIO, GROWTH, LIMIT)
    worse = evidence.derive(
        "worse", Message("workloads that need more memory with growth"), larger, ratios, "count"
    )
    tried = evidence.count("tried", Message("workloads"), ratios)
    what = Message("most memory it needs against one region")
    evidence.derive(
        "most", what, lambda pairs: max(growth / limit for growth, limit in pairs), ratios
    )
    comparison = Message(
        "need more memory than with one region, up to {most} times as much (smallest capacities)."
    )
    return worse, tried, comparison


def _by_reserved(evidence: EvidenceCollector) -> tuple[float, float, Message]:
    """Compare what growth reserves with what blocks spread over in one region."""
    triples = in_one_region(evidence, GROWTH)
    what = Message("workloads that reserve more with growth than they spread over in one region")
    worse = evidence.derive("worse", what, beyond_region, triples, "count")
    tried = evidence.count("tried", Message("workloads"), triples)
    what = Message("most that growth reserves against one region")
    evidence.derive(
        "most",
        what,
        lambda rows: max(held / (region - hole) for held, region, hole in rows),
        triples,
    )
    comparison = Message(
        "reserve more than they spread over in one region, up to {most} times as much (no "
        "smallest capacity being measured here)."
    )
    return worse, tried, comparison


CLAIM = Claim(
    id="growth-best",
    section=Section.TENSORFLOW,
    order=8,
    statement=Message("Memory growth is TensorFlow's mode to recommend."),
    experiments=(tensorflow_policy.EXPERIMENT, fragmentation.EXPERIMENT, capacity.EXPERIMENT),
    rule=_rule,
)
