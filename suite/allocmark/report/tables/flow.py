"""Section 3.4 as a table: each branch of the way to memory, its cost and how often it is taken."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Evidence, Judgement
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.request_flow import branches
from allocmark.report.document_table import figure
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Text

TITLE = Message("3.4 From .cuda() to memory")
ORDER = 60
OF_DOCUMENT = True
_COLUMNS = (Message("step"), Message("cost"), Message("how often"))


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the steps in order; it is the flow chart in words."""
    table = Table(
        "document-flow",
        Message("The way of a request, step by step"),
        _COLUMNS,
        tuple(
            (label(branch.words), _cell(branch.cost), _cell(branch.taken))
            for branch in branches(EvidenceCollector(panel))
        ),
        Message(
            "Each step is tried when the one before did not do. Shares and counts are those of the "
            "workloads on torch's default allocator."
        ),
    )
    return [table]


def _cell(found: Evidence | Text) -> Cell:
    return figure(found) if isinstance(found, Evidence) else empty(found)
