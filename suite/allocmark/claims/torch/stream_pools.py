"""A pool for each stream: what it holds, and whether it spares the lock."""

from __future__ import annotations

import math
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
_ENDS = {
    "low": Message("speed-up: lower end of the 95 % interval"),
    "high": Message("speed-up: upper end of the 95 % interval"),
}


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
    what = Message("reserved, {streams} streams ÷ 1 stream", streams=f"{many['streams']:g}")
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
        Message("single-thread throughput, with {threads} threads on {threads} streams"),
    ),
)
def _lock(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(streams.SPEEDUP, subject=NATIVE, stream=streams.OWN)
    most = max(rows, key=lambda row: row["threads"])
    threads = evidence.axis("threads", Message("threads, each on its own stream"), most, "threads")
    what = Message("speed-up with {threads} threads", threads=f"{most['threads']:g}")
    speedup = evidence.show("speedup", what, most)
    where = {"subject": NATIVE, "stream": streams.SHARED, "threads": most["threads"]}
    what = Message("the same on one shared stream")
    evidence.show("shared", what, evidence.row(streams.SPEEDUP, **where))
    spread: Text = ""
    if not math.isnan(most["low"]):
        for end, words in _ENDS.items():
            evidence.axis(end, words, most, end)
        spread = Message(
            "On streams of their own the 95 % interval is {low} to {high}, one thread's spread "
            "in it."
        )
    return evidence.verdict(
        Ruling.of(speedup >= _SPARED * threads, in_part=speedup > 1),
        sentences(
            Message(
                "{threads} threads on streams of their own do {speedup} times the work of one, on "
                "a shared stream {shared} times."
            ),
            spread,
        ),
        Message(
            "All pools of a device are guarded by one lock. Separate pools keep the order of "
            "streams right; they spare no thread the lock."
        ),
    )
