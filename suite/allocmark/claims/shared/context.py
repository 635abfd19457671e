"""What a CUDA context takes."""

from __future__ import annotations

from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.shared.meters import metered
from allocmark.schema.metrics import context
from allocmark.system.units import MIB

SEVERAL_HUNDRED = 200 * MIB


def total(
    evidence: EvidenceCollector, subject: str, stage: str, loading: str = context.LAZY
) -> Row:
    """Return what a process holds after a stage of its start."""
    where = {"subject": subject, "stage": stage, "module_loading": loading}
    return metered(evidence, context.TOTAL_BYTES, **where)
