"""Whether pools of their own spare streams the lock."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.schema.metrics import streams
from allocmark.system.message import Message

_SPARED = 0.75
"""Threads that do not wait for each other do at least this share of their number's work."""


def _rule(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(streams.SPEEDUP, subject=NATIVE, stream=streams.OWN)
    most = max(rows, key=lambda row: row["threads"])
    threads = evidence.axis("threads", Message("threads, each on its own stream"), most, "threads")
    speedup = evidence.show("speedup", Message("work of all of them over that of one"), most)
    where = {"subject": NATIVE, "stream": streams.SHARED, "threads": most["threads"]}
    evidence.show(
        "shared", Message("the same on one shared stream"), evidence.row(streams.SPEEDUP, **where)
    )
    return evidence.verdict(
        Ruling.of(speedup >= _SPARED * threads, in_part=speedup > 1),
        Message(
            "{threads} threads on streams of their own do {speedup} times the work of one, on a "
            "shared stream {shared} times."
        ),
        Message(
            "All pools of a device are guarded by one lock. Separate pools keep the order of "
            "streams right; they spare no thread the lock."
        ),
    )


CLAIM = Claim(
    id="pt-no-lock",
    section=Section.TORCH_TRAITS,
    order=5,
    statement=Message("A pool for each stream lets streams in parallel avoid lock contention."),
    experiments=(streams.EXPERIMENT,),
    rule=_rule,
    on_time=True,
    first_screen=FirstScreen(
        3,
        "speedup",
        Message(
            "the work of one thread is what {threads} threads on {threads} streams do together"
        ),
    ),
)
