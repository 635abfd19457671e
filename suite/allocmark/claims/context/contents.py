"""What a context holds: modules, stacks, the heap, streams."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import difference
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.context import total
from allocmark.claims.shared.meters import metered, metered_rows
from allocmark.schema.metrics import context
from allocmark.store.table import spread
from allocmark.system.message import Message


def _rule(evidence: EvidenceCollector) -> Verdict:
    lazy, eager = (total(evidence, context.TORCH, context.CONTEXT, way) for way in context.LOADINGS)
    what = Message("more when torch's modules are loaded at once")
    modules = evidence.derive("modules", what, difference, [(eager, lazy)], "bytes")
    stack = evidence.derive(
        "stack",
        Message("more between the smallest and largest stack limit"),
        spread,
        metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, limit=context.STACK),
        "bytes",
    )
    heap = evidence.derive(
        "heap",
        Message("more between the smallest and largest heap limit"),
        spread,
        metered_rows(evidence, context.LIMITED_CONTEXT_BYTES, limit=context.HEAP),
        "bytes",
    )
    made, before = (
        metered(evidence, context.CALL_BYTES, subject=context.TORCH, call=call)
        for call in (context.MAKE_STREAM, context.SET_DEVICE)
    )
    what = Message("more when torch makes its streams")
    streams = evidence.derive("streams", what, difference, [(made, before)], "bytes")
    parts = [modules > 0, stack > 0, heap > 0, streams > 0]
    return evidence.verdict(
        Ruling.of(all(parts), in_part=any(parts)),
        Message(
            "torch's modules add {modules} when loaded at once and its streams {streams}; stack "
            "and heap limits move it by {stack} and {heap}."
        ),
        Message("All of these are reserved for the process when its context is created or used."),
    )


CLAIM = Claim(
    id="ctx-contents",
    section=Section.CONTEXT,
    order=3,
    statement=Message("A context holds what memory management, streams and loaded modules need."),
    experiments=(context.EXPERIMENT,),
    rule=_rule,
    on_context=True,
)
