"""What TensorFlow takes of the card, and where BFC puts blocks."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import GREEDY, GROWTH, LIMIT
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import tensorflow_policy
from allocmark.system.message import Message

NEARLY_ALL = 0.9
_BFC = (LIMIT, GROWTH, GREEDY)
"""Subjects whose allocator is BFC."""
_SHARES = {
    tensorflow_policy.CREATED: Message("share of the card held: device created"),
    tensorflow_policy.FIRST_TENSOR: Message("share of the card held: first tensor"),
}


def share_taken(evidence: EvidenceCollector, name: str, point: str) -> float:
    """Take the share of the card that the greedy mode holds at a point as evidence."""
    row = evidence.row(tensorflow_policy.TAKEN_SHARE, subject=GREEDY, point=point)
    return evidence.show(name, _SHARES[point], row)


def placed_by_bfc(evidence: EvidenceCollector, metric: Metric) -> Row:
    """Return what the crafted sequence says of BFC, in whichever mode it was run."""
    for subject in _BFC:
        if rows := evidence.rows(metric, subject=subject):
            return rows[0]
    raise evidence.missing(metric, subject=LIMIT)
