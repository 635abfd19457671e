"""What memory_allocated() counts."""

from __future__ import annotations

from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import Pairs
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import POINTS, kept, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message


def largest_difference(pairs: Pairs) -> float:
    """Return the largest difference of two that should be the same."""
    return max(abs(first - second) for first, second in pairs)


def _rule(evidence: EvidenceCollector) -> Verdict:
    wrong = evidence.derive(
        "wrong",
        Message("most that memory_allocated is off the block map"),
        largest_difference,
        [
            (
                shown(evidence, pressure.ALLOCATED, point),
                kept(evidence, pressure.LIVE_BLOCKS, point),
            )
            for point in POINTS
        ],
        "bytes",
    )
    return evidence.verdict(
        Ruling.of(wrong == 0, in_part=True),
        Message(
            "Off by {wrong} from the block map at every point. It counts blocks of this process's "
            "allocator, so neither context nor what libraries take themselves."
        ),
        Message("The allocator adds and subtracts each block's rounded size."),
    )


CLAIM = Claim(
    id="pt-counters",
    section=Section.TORCH,
    order=5,
    statement=Message("memory_allocated() is what is used."),
    experiments=(pressure.EXPERIMENT,),
    rule=_rule,
)
