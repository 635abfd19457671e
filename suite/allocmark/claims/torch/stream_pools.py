"""Each stream has a pool of its own."""

from __future__ import annotations

from allocmark.allocators.torch_caching import DRIVER_POOL, NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import ratio
from allocmark.claims.core.evidence_collector import EvidenceCollector, Where
from allocmark.schema.metrics import streams
from allocmark.system.message import Message, Text, sentences
from allocmark.system.units import MIB

_ONE_SHOT: dict[str, Where] = {"use": streams.ONE_SHOT, "bytes": 2 * MIB}


def _rule(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(streams.RESERVED_BYTES, subject=NATIVE, **_ONE_SHOT)
    few, many = (pick(rows, key=lambda row: row["streams"]) for pick in (min, max))
    growth = evidence.derive(
        "growth", Message("reserved on the most streams over that on one"), ratio, [(many, few)]
    )
    count = evidence.axis(
        "streams", Message("streams, each used once after the other"), many, "streams"
    )
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


CLAIM = Claim(
    id="pt-stream-pools",
    section=Section.TORCH_TRAITS,
    order=4,
    statement=Message("Each CUDA stream has a cache pool of its own."),
    experiments=(streams.EXPERIMENT,),
    rule=_rule,
    first_screen=FirstScreen(
        8, "growth", Message("the memory for one block used on {streams} streams in turn")
    ),
)
