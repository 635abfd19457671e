"""How BFC finds a chunk, and when it merges free ones."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.tensorflow import placed_by_bfc
from allocmark.schema.metrics import placement
from allocmark.system.message import Message, Text, sentences


@partial(
    Claim,
    id="tf-bfc",
    place=(Section.TENSORFLOW, 4),
    statement=Message("TensorFlow's BFC allocator finds the best fit and merges neighbours."),
    experiments=(placement.EXPERIMENT,),
)
def _bfc(evidence: EvidenceCollector) -> Verdict:
    what = Message("took the smallest hole that fits (1: yes)")
    best = evidence.show("best_fit", what, placed_by_bfc(evidence, placement.BEST_FIT))
    what = Message("freed neighbours served one request (1: yes)")
    merges = evidence.show("merges", what, placed_by_bfc(evidence, placement.MERGES_AT_FREE))
    beside: Text = ""
    for row in evidence.rows(placement.BEST_FIT, subject=NATIVE)[:1]:
        if evidence.show("torch", Message("the same of PyTorch (1: yes)"), row):
            beside = Message("PyTorch's allocator does the same.")
    return evidence.verdict(
        Ruling.of(best > 0 and merges > 0, in_part=best > 0 or merges > 0),
        sentences(Message("Seen in the addresses of a crafted sequence of requests."), beside),
        Message("Free chunks are sorted by size, and each knows its neighbours."),
    )


@partial(
    Claim,
    id="tf-bfc-when",
    place=(Section.TENSORFLOW, 5),
    statement=Message("BFC merges free chunks when nothing fits."),
    experiments=(placement.EXPERIMENT,),
)
def _bfc_when(evidence: EvidenceCollector) -> Verdict:
    what = Message("merged with plenty left to take (1: yes)")
    merges = evidence.show("merges", what, placed_by_bfc(evidence, placement.MERGES_AT_FREE))
    return evidence.verdict(
        Ruling.of(merges == 0),
        Message(
            "Neighbours were one right after the free, while a larger hole was there to be used."
        ),
        Message(
            "A chunk is merged with its free neighbours when it is freed, not when memory is short."
        ),
    )
