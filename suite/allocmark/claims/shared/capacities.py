"""Smallest capacities side by side: what a workload needs under each allocator, and how surely."""

from __future__ import annotations

from dataclasses import dataclass

from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.schema.metrics import capacity


@dataclass(frozen=True, slots=True)
class Capacity:
    """The smallest capacity in which a workload completes, and how far below it that failed."""

    needed: Row
    resolution_bytes: float

    def surely_less_than(self, other: Capacity) -> bool:
        """Whether the other fails in a capacity in which this one completes."""
        beyond = other.needed - self.needed
        return beyond > 0 and beyond >= other.resolution_bytes


def by_subject(evidence: EvidenceCollector) -> dict[str, dict[str, Capacity]]:
    """Return what each workload needs under each allocator, as far as it was searched."""
    resolutions = {
        (row["workload"], row["subject"]): float(row)
        for row in evidence.rows(capacity.RESOLUTION_BYTES)
        if "workload" in row.record
    }
    found: dict[str, dict[str, Capacity]] = {}
    for row in evidence.rows(capacity.SMALLEST_CAPACITY_BYTES):
        if "workload" not in row.record:
            continue
        workload, subject = str(row["workload"]), str(row["subject"])
        resolution = resolutions.get((workload, subject), 0.0)
        found.setdefault(workload, {})[subject] = Capacity(row, resolution)
    return found


def compared(
    evidence: EvidenceCollector, first: str, second: str
) -> list[tuple[Capacity, Capacity]]:
    """Return two subjects' capacities for each workload that both have. Raises
    `MissingFigureError` where there is none."""
    found = [
        (needed[first], needed[second])
        for needed in by_subject(evidence).values()
        if first in needed and second in needed
    ]
    if not found:
        for subject in (first, second):
            evidence.required_rows(capacity.SMALLEST_CAPACITY_BYTES, subject=subject)
        raise evidence.missing(capacity.SMALLEST_CAPACITY_BYTES, subject=second)
    return found
