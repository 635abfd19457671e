"""Whether a failed allocation comes from the setting rather than from the size of the model."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import share_of_positives
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.shared.indicators import RunKey, by_run, failures
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message

_OFTEN = 1 / 3


def _rule(evidence: EvidenceCollector) -> Verdict:
    failed = [run[1:] for run in failures(evidence) if run[0] == NATIVE]
    if not failed:
        raise evidence.missing(pressure.COMPLETED, subject=NATIVE)
    others: dict[RunKey, list[Row]] = {}
    for run, row in by_run(evidence, pressure.COMPLETED).items():
        if run[0] != NATIVE:
            others.setdefault(run[1:], []).append(row)
    best = [max(others[same]) for same in failed if same in others]
    what = Message("failures that another setting avoids")
    share = evidence.derive("share", what, share_of_positives, best, "share")
    evidence.count("failures", Message("failed runs as torch comes"), best, "runs")
    return evidence.verdict(
        Ruling.of(share >= _OFTEN, in_part=share > 0),
        Message(
            "Of {failures} failures of torch as it comes, in 1 to 2 live peaks of memory, {share} "
            "do not occur in the same memory under another setting."
        ),
        Message("The live bytes are the same; what is free lies in pieces that are too small."),
    )


CLAIM = Claim(
    id="not-size",
    section=Section.WHOLE,
    order=1,
    statement=Message(
        "An OOM often comes from the allocation strategy, not from the size of the model."
    ),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
