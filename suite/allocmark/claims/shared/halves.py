"""A claim of two halves, one for each framework."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from allocmark.claims.core.claim import Claim, Rule, Ruling, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.system.message import Text, sentences


def both(torch: Claim, tensorflow: Claim) -> Rule:
    """Return the rule that both halves hold: in part where one does."""

    def rule(evidence: EvidenceCollector) -> Verdict:
        halves: list[Verdict] = []
        for half, prefix in ((torch, "pt"), (tensorflow, "tf")):
            own = evidence.fresh()
            try:
                halves.append(half.rule(own))
            finally:
                # What one half shows stays evidence where the other was not measured.
                evidence.collected += [replace(e, name=f"{prefix}_{e.name}") for e in own.collected]
        return evidence.verdict(
            _of_both({half.ruling for half in halves}),
            _joined(halves, lambda half: half.condition),
            _joined(halves, lambda half: half.cause),
        )

    return rule


def _of_both(rulings: set[Ruling]) -> Ruling:
    """Return the ruling on the whole: what an undecided half could still turn is undecided."""
    if len(rulings) == 1:
        return next(iter(rulings))
    settled = Ruling.IN_PART in rulings or Ruling.UNDECIDED not in rulings
    return Ruling.IN_PART if settled else Ruling.UNDECIDED


def _joined(halves: list[Verdict], sentence: Callable[[Verdict], Text]) -> Text:
    """Return a sentence of each half with that half's figures, once where both say the same."""
    own = [half.filled(sentence(half)) for half in halves]
    return sentences(*{str(text): text for text in own}.values())
