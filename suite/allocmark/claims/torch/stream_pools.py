"""A pool for each stream: what it holds, and whether it spares the lock."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import DRIVER_POOL, NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import ratio
from allocmark.claims.core.evidence_collector import EvidenceCollector, Where
from allocmark.schema.metrics import streams
from allocmark.system.message import Message, Text, sentences
from allocmark.system.units import MIB

_ONE_SHOT: dict[str, Where] = {"use": streams.ONE_SHOT, "bytes": 2 * MIB}
_SPARED = 0.75
"""Threads that do not wait for each other do at least this share of their number's work."""


@partial(
    Claim,
    id="pt-stream-pools",
    place=(Section.TORCH_TRAITS, 4),
    statement=Message("Each CUDA stream has a cache pool of its own."),
    experiments=(streams.EXPERIMENT,),
    first_screen=FirstScreen(
        8, "growth", Message("the memory for one block used on {streams} streams in turn")
    ),
)
def _stream_pools(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(streams.RESERVED_BYTES, subject=NATIVE, **_ONE_SHOT)
    few, many = (pick(rows, key=lambda row: row["streams"]) for pick in (min, max))
    what = Message("reserved on the most streams over that on one")
    growth = evidence.derive("growth", what, ratio, [(many, few)])
    what = Message("streams, each used once after the other")
    count = evidence.axis("streams", what, many, "streams")
    evidence.show("held", Message("reserved on the most streams"), many)
    beside: Text = ""
    where = {"subject": DRIVER_POOL, **_ONE_SHOT, "streams": many["streams"]}
    if peers := evidence.rows(streams.RESERVED_BYTES, **where):
        evidence.show("async", Message("the same over cudaMallocAsync"), peers[0])
        beside = Message("Over cudaMallocAsync it is {async}.")
    return evidence.verdict(
        Ruling.of(1 < growth == count, in_part=growth > 1),
        sentences(
            Message(
                "A block of 2 MiB on {streams} streams in turn leaves {held} reserved, {growth} "
                "times what it leaves on one."
            ),
            beside,
        ),
        Message("A freed block may only be reused in the order of its own stream."),
    )


@partial(
    Claim,
    id="pt-no-lock",
    place=(Section.TORCH_TRAITS, 5),
    statement=Message("A pool for each stream lets streams in parallel avoid lock contention."),
    experiments=(streams.EXPERIMENT,),
    on_time=True,
    first_screen=FirstScreen(
        3,
        "speedup",
        Message(
            "the work of one thread is what {threads} threads on {threads} streams do together"
        ),
    ),
)
def _lock(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(streams.SPEEDUP, subject=NATIVE, stream=streams.OWN)
    most = max(rows, key=lambda row: row["threads"])
    threads = evidence.axis("threads", Message("threads, each on its own stream"), most, "threads")
    speedup = evidence.show("speedup", Message("work of all of them over that of one"), most)
    where = {"subject": NATIVE, "stream": streams.SHARED, "threads": most["threads"]}
    what = Message("the same on one shared stream")
    evidence.show("shared", what, evidence.row(streams.SPEEDUP, **where))
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
