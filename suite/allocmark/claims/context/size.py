"""Whether a context's size matters."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.context import SEVERAL_HUNDRED, total
from allocmark.schema.metrics import context
from allocmark.system.message import Message
from allocmark.system.units import GIB, MIB

_HUNDRED = 100 * MIB
_SMALL_CARD = 8 * GIB


def _rule(evidence: EvidenceCollector) -> Verdict:
    row = total(evidence, context.DRIVER, context.CONTEXT)
    bare = evidence.show("bare", Message("a bare context"), row)
    what = Message("its share of an 8 GiB card")
    evidence.derive("share", what, lambda rows: rows[0] / _SMALL_CARD, [row], "share")
    what = Message("torch after a kernel and a matrix product")
    evidence.show("torch", what, total(evidence, context.TORCH, context.PRODUCT))
    what = Message("the same with EAGER module loading")
    evidence.show("eager", what, total(evidence, context.TORCH, context.PRODUCT, context.EAGER))
    return evidence.verdict(
        Ruling.of(bare >= SEVERAL_HUNDRED, in_part=bare >= _HUNDRED),
        Message(
            "{bare} each before any kernel, {torch} once torch has run a kernel and a matrix "
            "product, {eager} with EAGER module loading; it depends on GPU, driver and libraries."
        ),
        Message("Each process has a context of its own; modules and libraries are loaded into it."),
    )


CLAIM = Claim(
    id="ctx-ignored",
    section=Section.CONTEXT,
    order=4,
    statement=Message(
        "A context's overhead is large enough to matter: several hundred MB for each process."
    ),
    experiments=(context.EXPERIMENT,),
    rule=_rule,
    on_context=True,
    first_screen=FirstScreen(1, "bare", Message("device memory of a context, nothing allocated")),
)
