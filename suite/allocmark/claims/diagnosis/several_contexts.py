"""Several processes, each with a context of its own."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import difference
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError
from allocmark.claims.shared.context import SEVERAL_HUNDRED, total
from allocmark.claims.shared.meters import metered_rows
from allocmark.schema.metrics import context
from allocmark.system.message import Message, Text, sentences

_ALIKE = 0.1


def _rule(evidence: EvidenceCollector) -> Verdict:
    rows = metered_rows(evidence, context.PROCESS_BYTES, 2, subject=context.DRIVER)
    fewest, most = (pick(rows, key=lambda row: row["processes"]) for pick in (min, max))
    one = evidence.show("one", Message("one idle process"), fewest)
    many = evidence.show("many", Message("each of the most idle processes"), most)
    evidence.axis("processes", Message("processes then"), most, "processes")
    own = abs(many - one) <= _ALIKE * one
    return evidence.verdict(
        Ruling.of(many >= SEVERAL_HUNDRED and own),
        sentences(
            Message(
                "{processes} idle processes hold {many} each, as one alone does ({one}). One for "
                "each process is the least there can be: it is no fault by itself."
            ),
            _used(evidence),
        ),
        Message("Processes share no context: each pays for its own in full."),
    )


def _used(evidence: EvidenceCollector) -> Text:
    """Return what a process that works holds beyond that, where it was measured."""
    try:
        worked, idle = (
            total(evidence, context.TORCH, stage) for stage in (context.PRODUCT, context.CONTEXT)
        )
    except MissingFigureError:
        return ""
    what = Message("torch's first tensor, kernel and matrix product add")
    evidence.derive("used", what, difference, [(worked, idle)], "bytes")
    return Message(
        "A first tensor, kernel and matrix product add {used} in torch: a few hundred MB need not "
        "be idle contexts."
    )


CLAIM = Claim(
    id="ctx-multiple",
    section=Section.DIAGNOSIS,
    order=1,
    statement=Message(
        "Several processes at a few hundred MB each point to contexts created repeatedly."
    ),
    experiments=(context.EXPERIMENT,),
    rule=_rule,
    on_context=True,
)
