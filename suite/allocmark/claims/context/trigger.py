"""Which CUDA calls create the context."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import positives
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.schema.flags import CALL_FAILED
from allocmark.schema.metrics import context
from allocmark.store.table import flags_of
from allocmark.system.message import Joined, Message, Text, sentences


def _rule(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(context.CONTEXT_CREATED)
    creating = evidence.derive(
        "creating", Message("calls that create a context"), positives, rows, "calls"
    )
    tried = evidence.count("tried", Message("calls tried"), rows, "calls")
    names = [str(row["call"]) for row in rows if row > 0]
    # That a call which raised created no context says less than of the others.
    failed = [
        str(row["call"]) for row in rows if row == 0.0 and CALL_FAILED in flags_of(row.record)
    ]
    condition = Message("{creating} of {tried} calls do.")
    if names:
        condition = Message("{creating} of {tried} calls do: {names}.", names=_list(names))
    rest: Text = ""
    if failed:
        rest = Message("Of those that do not, these failed: {names}.", names=_list(failed))
    return evidence.verdict(
        Ruling.of(creating == tried, in_part=creating > 0),
        sentences(condition, rest),
        Message(
            "The runtime creates a context in the first call that works in one, be it a question "
            "or a request; the driver's own functions do only where they are told to."
        ),
    )


def _list(names: list[str]) -> Joined:
    return Joined(Message(", "), tuple(names))


CLAIM = Claim(
    id="ctx-trigger",
    section=Section.CONTEXT,
    order=2,
    statement=Message("Any CUDA call creates the context."),
    experiments=(context.EXPERIMENT,),
    rule=_rule,
    on_context=True,
)
