"""Since which release of PyTorch retries are counted."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.indicators import by_run, completed, run_key
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message

_FIRST_RELEASE, _STATED_RELEASE = "1.4", "1.9"
"""Of PyTorch with num_alloc_retries: by what was published, and by the source document."""


def _rule(evidence: EvidenceCollector) -> Verdict:
    retries = by_run(evidence, pressure.RETRIES)
    runs = map(run_key, completed(evidence))
    rows = [retries[run] for run in runs if run in retries]
    if not rows:
        return evidence.verdict(
            Ruling.FAILS,
            Message("The installed release does not tell it."),
            Message("Its counters were asked for in every run."),
        )
    what = Message("runs in which the installed torch told num_alloc_retries")
    evidence.count("read", what, rows, "runs")
    return evidence.verdict(
        Ruling.of(_FIRST_RELEASE == _STATED_RELEASE, in_part=True),
        Message(
            "The installed release offers it, but so does every release from {first}.0 on, not "
            "only from {stated} on (runs in which it was read: {read}).",
            first=_FIRST_RELEASE,
            stated=_STATED_RELEASE,
        ),
        Message(
            "memory_stats came with pull request 27361 of October 2019: 1.3.1 has memory_cached "
            "only, 1.4.0 has num_alloc_retries."
        ),
    )


CLAIM = Claim(
    id="rule-version",
    section=Section.DIAGNOSIS,
    order=4,
    statement=Message("memory_stats() with num_alloc_retries is there since PyTorch 1.9."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
    published=(
        "Published: pytorch/pytorch#27361 (torch.cuda.memory_stats, October 2019);",
        "torch 1.3.1 and 1.4.0 as published on PyPI: torch/cuda/memory.py",
    ),
)
