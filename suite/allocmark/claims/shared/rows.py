"""Rows that belong together: of several subjects by workload, of several meters the best."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row, Where
from allocmark.schema.device_meters import METERS
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


def metered_rows(
    evidence: EvidenceCollector, metric: Metric, least: int = 1, /, **where: Where
) -> list[Row]:
    """Return the rows of the first meter that read at least so many.

    NVML by process comes first: it tells a process from its neighbours.
    """
    for meter in METERS:
        rows = evidence.rows(metric, axis_meter=meter, **where)
        if len(rows) >= least:
            return rows
    raise evidence.missing(metric, **where)


def metered(evidence: EvidenceCollector, metric: Metric, **where: Where) -> Row:
    """Return the row of the best meter that read it."""
    return metered_rows(evidence, metric, **where)[0]
