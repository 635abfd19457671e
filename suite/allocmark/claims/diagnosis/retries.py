"""Whether more retries announce failed allocations."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import share_of_zeros
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.indicators import RULE_RETRIES, predict, runs_with
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message, sentences

_MANY = 5


def _rule(evidence: EvidenceCollector) -> Verdict:
    ruling, lead = predict(evidence, RULE_RETRIES)
    worse, comparison = _more_are_worse(evidence)
    if ruling is Ruling.HOLDS and not worse:
        ruling = Ruling.IN_PART
    condition = Message(
        "Of the {rule_shown} runs with a retry {rule_precision} failed, of all {runs} {base}; it "
        "announced {rule_recall} of the failures."
    )
    return evidence.verdict(
        ruling,
        sentences(condition, lead, comparison),
        Message(
            "It counts how often the driver refused and the cache was emptied: that happens when "
            "memory is short, fragmented or not."
        ),
    )


def _more_are_worse(evidence: EvidenceCollector) -> tuple[bool, Message]:
    """Return whether more of the runs with many retries failed than of those with few, and the
    sentence on it; without runs of both kinds it is not known, and so is not said to be."""
    limit = str(_MANY)
    runs = [(run, retries) for run, retries in runs_with(evidence, RULE_RETRIES) if retries > 0]
    few = [run for run, retries in runs if retries <= _MANY]
    many = [run for run, retries in runs if retries > _MANY]
    if not few or not many:
        return False, Message(
            "Whether more retries are worse is open: no runs both with 1 to {limit} and with more "
            "to set side by side.",
            limit=limit,
        )
    evidence.count("few_runs", Message("runs with 1 to {limit} retries", limit=limit), few, "runs")
    what = Message("failures among the runs with 1 to {limit} retries", limit=limit)
    of_few = evidence.derive("few", what, share_of_zeros, few, "share")
    evidence.count("many_runs", Message("runs with more than {limit}", limit=limit), many, "runs")
    what = Message("failures among the runs with more than {limit}", limit=limit)
    of_many = evidence.derive("many", what, share_of_zeros, many, "share")
    if of_many <= of_few:
        return False, Message(
            "More retries are not worse: of {few_runs} runs with 1 to {limit} of them {few} "
            "failed, of {many_runs} with more {many}.",
            limit=limit,
        )
    return True, Message(
        "More retries are worse: of {few_runs} runs with 1 to {limit} of them {few} failed, of "
        "{many_runs} with more {many}.",
        limit=limit,
    )


CLAIM = Claim(
    id="rule-retries",
    section=Section.DIAGNOSIS,
    order=5,
    statement=Message("The larger num_alloc_retries, the worse the fragmentation."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
