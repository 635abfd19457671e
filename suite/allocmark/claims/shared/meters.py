"""Figures that several meters read, of which the best is taken."""

from __future__ import annotations

from allocmark.claims.core.evidence_collector import EvidenceCollector, Row, Where
from allocmark.schema.device_meters import METERS
from allocmark.schema.metric import Metric


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
