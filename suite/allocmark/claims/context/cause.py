"""Why a context is as large as it is."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.meters import metered_rows
from allocmark.schema.metrics import context
from allocmark.store.table import spread
from allocmark.system.message import Message

_STACK_OVER_BOOKKEEPING = 10.0


def _rule(evidence: EvidenceCollector) -> Verdict:
    stack = evidence.derive(
        "stack",
        Message("what the stack limit alone moves"),
        spread,
        metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, limit=context.STACK),
        "bytes",
    )
    rows = metered_rows(evidence, context.LIVE_BYTES)
    most = max(rows, key=lambda row: (row["count"], row["bytes"]))
    requested = float(most["count"] * most["bytes"])
    what = Message("taken beyond what was asked for, with the most live allocations")
    bookkeeping = evidence.derive(
        "bookkeeping", what, lambda rows: rows[0] - requested, [most], "bytes"
    )
    evidence.axis("count", Message("live allocations then"), most, "count")
    refuted = stack > _STACK_OVER_BOOKKEEPING * max(bookkeeping, 1.0)
    return evidence.verdict(
        Ruling.of(False, in_part=not refuted),
        Message(
            "{count} live allocations take {bookkeeping} beyond their own bytes, while the stack "
            "limit alone moves the context by {stack}."
        ),
        Message(
            "The size follows from what kernels may need (a stack for each thread that can be "
            "resident, heap, code), not from tables of allocations. What is left when all limits "
            "are smallest is not told apart."
        ),
    )


CLAIM = Claim(
    id="ctx-cause",
    section=Section.CONTEXT,
    order=5,
    statement=Message(
        "The driver reserves a context's memory because managing allocations needs tables and "
        "metadata."
    ),
    experiments=(context.EXPERIMENT,),
    rule=_rule,
    on_context=True,
)
