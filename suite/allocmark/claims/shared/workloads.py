"""Rows of several subjects side by side, workload by workload."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import fragmentation

Triples = Sequence[tuple[float, float, float]]


def by_workload(evidence: EvidenceCollector, metric: Metric, subject: str) -> dict[str, Row]:
    """Return a subject's rows of a metric by workload, at least one."""
    return {row["workload"]: row for row in evidence.required_rows(metric, subject=subject)}


def pairs(
    evidence: EvidenceCollector, metric: Metric, first: str, second: str
) -> list[tuple[Row, Row]]:
    """Return the rows of two subjects for each workload that both have."""
    firsts = by_workload(evidence, metric, first)
    seconds = by_workload(evidence, metric, second)
    found = [(row, seconds[name]) for name, row in firsts.items() if name in seconds]
    if not found:
        raise evidence.missing(metric, subject=second)
    return found


def in_one_region(evidence: EvidenceCollector, subject: str) -> list[tuple[Row, Row, Row]]:
    """Return for each workload what `subject` reserves, BFC's region, and its largest hole.

    A region that is larger than needed is filled from one end: what its largest free block leaves
    of it is what blocks and the holes between them spread over.
    """
    holes = by_workload(evidence, fragmentation.LARGEST_FREE_BYTES, LIMIT)
    regions = by_workload(evidence, fragmentation.PEAK_RESERVED_BYTES, LIMIT)
    reserved = by_workload(evidence, fragmentation.PEAK_RESERVED_BYTES, subject)
    triples = [
        (row, regions[name], holes[name])
        for name, row in reserved.items()
        if name in regions and name in holes
    ]
    if not triples:
        raise evidence.missing(fragmentation.LARGEST_FREE_BYTES, subject=LIMIT)
    return triples


def beyond_region(triples: Triples) -> float:
    """Return in how many triples the first exceeds the second less the third."""
    return float(sum(a > b - c for a, b, c in triples))
