"""Whether a cache above 30 % announces failed allocations."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, FirstScreen, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.indicators import RULE_30, predict
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message, sentences


def _rule(evidence: EvidenceCollector) -> Verdict:
    ruling, lead = predict(evidence, RULE_30)
    condition = Message(
        "Of the {rule_shown} runs that showed it {rule_precision} failed, of all {runs} {base}; "
        "it announced {rule_recall} of the failures."
    )
    return evidence.verdict(
        ruling,
        sentences(condition, lead),
        Message(
            "A cache that can be reused is no fragmentation: the share is large whenever a program "
            "has just freed much, and small just before memory runs out."
        ),
    )


CLAIM = Claim(
    id="rule-30",
    section=Section.DIAGNOSIS,
    order=3,
    statement=Message("A cache above 30 % of what is reserved means serious fragmentation."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
    first_screen=FirstScreen(
        5,
        "rule_precision",
        Message("of the runs that showed a cache above 30 % failed; of all runs {base}"),
    ),
)
