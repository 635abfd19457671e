"""What a second process gets beside one that takes all, and beside one that grows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from allocmark.allocators.tensorflow_gpu import GREEDY, GROWTH
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import positives
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message, Text, sentences

_NOTHING = 0.01
"""Of what a second process needs: up to this share of it is nothing."""


@partial(
    Claim,
    id="two-models",
    place=(Section.TENSORFLOW, 9),
    statement=Message("Of two models on one machine, a greedy one leaves the other nothing."),
    experiments=(policy.EXPERIMENT,),
)
def _two_greedy(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(policy.PAIR_FAILED, subject=GREEDY)
    what = Message("second processes that failed")
    failed = evidence.derive("failed", what, positives, rows, "count")
    tried = evidence.count("tried", Message("second processes"), rows)
    failures = [row for row in rows if row > 0]
    nothing, got = _got(evidence, failures or rows)
    fail = Message("Beside a greedy process {failed} of {tried} second ones fail.")
    if failures:
        fail = Message(
            "Beside a greedy process {failed} of {tried} second ones fail ({names}).",
            names=", ".join(str(row["second"]) for row in failures),
        )
    cause = Message("What the first has taken is lost to all others, used or not.")
    if not nothing:
        cause = Message(
            "What the first has taken is lost to all others, used or not. What others get is what "
            "it leaves of this GPU."
        )
    return evidence.verdict(
        Ruling.of(failed == tried, in_part=failed > 0), sentences(fail, got), cause
    )


def _got(evidence: EvidenceCollector, seconds: Sequence[Row]) -> tuple[bool, Message]:
    """Take what some second processes got of the tensors they need as evidence.

    Return whether that is nothing, and the sentence. All processes want the same set, and the
    first one has it.
    """
    where = {"subject": GREEDY, "second": [str(row["second"]) for row in seconds]}
    got = evidence.required_rows(policy.PAIR_LIVE_BYTES, process=policy.SECOND, **where)
    wanted = evidence.required_rows(policy.PAIR_LIVE_BYTES, process=policy.FIRST, **where)
    least = evidence.derive("least", Message("least that one of these got"), min, got, "bytes")
    most = evidence.derive("got", Message("most that one of these got"), max, got, "bytes")
    needed = evidence.derive("needed", Message("tensors that each needs"), max, wanted, "bytes")
    amount = Message("{least} to {got}") if least < most else Message("{got}")
    sentence = Message("Each got {amount} of the {needed} of tensors that it needs.", amount=amount)
    if seconds[0]:
        sentence = Message(
            "Each that failed got {amount} of the {needed} of tensors that it needs.", amount=amount
        )
    return most <= _NOTHING * needed, sentence


@partial(
    Claim,
    id="two-models-growth",
    place=(Section.TENSORFLOW, 10),
    statement=Message("With memory growth two models on one machine both get what they need."),
    experiments=(policy.EXPERIMENT,),
)
def _two_growth(evidence: EvidenceCollector) -> Verdict:
    pair = {"subject": GROWTH, "second": GROWTH}
    what = Message("second process failed")
    failed = evidence.show("failed", what, evidence.row(policy.PAIR_FAILED, **pair))
    what = Message("tensors of the second one")
    evidence.show(
        "second_live", what, evidence.row(policy.PAIR_LIVE_BYTES, process=policy.SECOND, **pair)
    )
    idle: Text = ""
    if rows := evidence.rows(policy.RETURNED_BYTES, subject=GROWTH, after=policy.AFTER_1_S):
        what = Message("released by an idle process within 1 s")
        if evidence.derive("idle", what, max, rows, "bytes") == 0:
            idle = Message("A process that idles releases nothing to the other.")
    return evidence.verdict(
        Ruling.of(failed == 0),
        sentences(
            Message(
                "Two growing processes: the second gets {second_live} of tensors, both sets "
                "together being smaller than this GPU."
            )
            if failed == 0
            else Message("Two growing processes: the second gets {second_live} of tensors."),
            idle,
        ),
        Message("Each takes regions only as its own tensors need them."),
    )
