"""The one figure of a verdict that stands in its row: that which the document's tables show."""

from __future__ import annotations

from functools import cache

from allocmark.claims.core.claim import Evidence, Judgement
from allocmark.report.document_table import DocumentTable
from allocmark.report.tables import (
    document_context,
    document_tensorflow,
    document_torch,
    rules,
)


def key_figure(judged: Judgement) -> Evidence | None:
    """Return the figure that a verdict is told by; None where it has none."""
    claim, verdict = judged.claim, judged.verdict
    shown = _of_tables().get(claim.id) or (claim.first_screen and claim.first_screen.evidence)
    found = verdict.find(shown) if shown else None
    return found or next(iter(verdict.evidence), None)


@cache
def _of_tables() -> dict[str, str]:
    """Return the name of the figure that the document's tables show of each claim."""
    named = {claim: figure for claim, figure, *_ in rules.TESTED}
    tables: tuple[DocumentTable, ...] = (
        *document_context.TABLES,
        *document_torch.TABLES,
        *document_tensorflow.TABLES,
    )
    for table in tables:
        for _, cells in table.rows:
            for cell in cells:
                named.setdefault(cell.claim, cell.figure)
    return named
