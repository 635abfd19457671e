"""Who fragments more, PyTorch's cache or TensorFlow's BFC.

By the smallest capacity in which each workload completes, where that was searched for in BFC's
fixed region, which is what its default mode has. Else by what fragments: the share of reserved
memory that is wasted, the pieces that free memory lies in, and what blocks and holes spread over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from allocmark.allocators.tensorflow_gpu import GROWTH, LIMIT
from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import larger, median
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.core.over_workloads import in_most
from allocmark.claims.shared.rows import (
    Triples,
    beyond_region,
    by_workload,
    in_one_region,
    pairs,
)
from allocmark.schema.metrics import capacity, fragmentation
from allocmark.system.message import Message, Text, sentences

_CAUSE = Message(
    "Both split blocks and merge neighbours. PyTorch merges within segments of the driver, most of "
    "them made for one request; BFC within few large regions."
)


@partial(
    Claim,
    id="cmp-frag",
    place=(Section.COMPARISON, 4),
    statement=Message(
        "PyTorch relies on its cache and fragments more; TensorFlow's BFC merges and fragments "
        "less."
    ),
    experiments=(fragmentation.EXPERIMENT, capacity.EXPERIMENT),
)
def _fragments_more(evidence: EvidenceCollector) -> Verdict:
    if evidence.rows(capacity.CAPACITY_RATIO, subject=LIMIT):
        return _by_capacity(evidence)
    return _by_vector(evidence)


def _by_capacity(evidence: EvidenceCollector) -> Verdict:
    ratios = pairs(evidence, capacity.CAPACITY_RATIO, NATIVE, LIMIT)
    torch, bfc = zip(*ratios, strict=True)
    more = _counted(evidence, Message("workloads for which PyTorch needs more memory"), ratios)
    what = Message("PyTorch: smallest capacity over live peak, median")
    evidence.derive("torch", what, median, torch)
    what = Message("TensorFlow (BFC, one region): smallest capacity over live peak, median")
    evidence.derive("tf", what, median, bfc)
    expandable: Text = ""
    if rows := evidence.rows(capacity.CAPACITY_RATIO, subject=EXPANDABLE):
        what = Message("PyTorch with expandable segments, median")
        evidence.derive("expandable", what, median, rows)
        expandable = Message("With expandable segments PyTorch needs {expandable}.")
    return evidence.verdict(
        in_most(*more),
        sentences(
            Message(
                "By the smallest capacity in which workloads complete, BFC in one region as by "
                "default: PyTorch needs more memory in {worse} of {tried} workloads; as a median "
                "{torch} live peaks against {tf}."
            ),
            expandable,
        ),
        _CAUSE,
    )


def _by_vector(evidence: EvidenceCollector) -> Verdict:
    waste = pairs(evidence, fragmentation.WASTE_RATIO, NATIVE, GROWTH)
    torch, growth = zip(*waste, strict=True)
    _counted(evidence, Message("workloads in which PyTorch wastes more"), waste)
    evidence.derive("torch", Message("PyTorch: median waste"), median, torch, "share")
    what = Message("TensorFlow with growth: median waste")
    evidence.derive("tf", what, median, growth, "share")
    condition = sentences(
        Message(
            "By waste, no smallest capacity of BFC being measured here: PyTorch wastes more than "
            "TensorFlow with growth in {worse} of {tried} workloads ({torch} against {tf} of what "
            "is reserved, medians), but growth doubles its regions."
        ),
        _pieces(evidence),
        _spread(evidence),
        _expandable(evidence),
    )
    # Cache that torch would release before it fails is in it: this cannot decide.
    return evidence.verdict(Ruling.UNDECIDED, condition, _CAUSE)


def _pieces(evidence: EvidenceCollector) -> Text:
    """Compare the largest free block with all that is free at the live peak."""
    torch, growth = (_free_at_peak(evidence, subject) for subject in (NATIVE, GROWTH))
    workloads = [workload for workload in torch if workload in growth]
    both = [(*torch[workload], *growth[workload]) for workload in workloads]
    what = Message("workloads in which PyTorch's free memory lies in smaller pieces")
    evidence.derive("smaller", what, _in_smaller_pieces, both, "count")
    what = Message("PyTorch: largest free block over what is free, median")
    evidence.derive("torch_piece", what, _median_piece, [torch[w] for w in workloads], "share")
    what = Message("TensorFlow with growth: largest free block over what is free, median")
    evidence.derive("tf_piece", what, _median_piece, [growth[w] for w in workloads], "share")
    return Message(
        "What is free lies in smaller pieces with PyTorch in {smaller} of {tried} (largest free "
        "block {torch_piece} of it against {tf_piece})."
    )


def _free_at_peak(evidence: EvidenceCollector, subject: str) -> dict[str, tuple[Row, Row, Row]]:
    """Return the largest free block, what is reserved and what is allocated, by workload."""
    pieces = by_workload(evidence, fragmentation.LARGEST_FREE_BYTES, subject)
    reserved = by_workload(evidence, fragmentation.PEAK_RESERVED_BYTES, subject)
    allocated = by_workload(evidence, fragmentation.PEAK_ALLOCATED_BYTES, subject)
    return {
        workload: (piece, reserved[workload], allocated[workload])
        for workload, piece in pieces.items()
        if workload in reserved and workload in allocated
    }


def _piece(largest: float, reserved: float, allocated: float) -> float:
    """Return the largest free block's share of what is free; where nothing is, it is in one."""
    return largest / (reserved - allocated) if reserved != allocated else 1.0


def _median_piece(triples: Triples) -> float:
    return median([_piece(*triple) for triple in triples])


def _in_smaller_pieces(sixes: Sequence[tuple[float, float, float, float, float, float]]) -> float:
    """Return in how many the first three have the smaller share in one piece."""
    return float(sum(_piece(*six[:3]) < _piece(*six[3:]) for six in sixes))


def _spread(evidence: EvidenceCollector) -> Text:
    """Compare what is reserved with what BFC spreads over in one region, where that was run."""
    if not evidence.rows(fragmentation.LARGEST_FREE_BYTES, subject=LIMIT):
        return ""
    triples = in_one_region(evidence, NATIVE)
    what = Message("workloads in which PyTorch reserves more than BFC spreads over in one region")
    evidence.derive("spread", what, beyond_region, triples, "count")
    return Message(
        "In one region, as by default, BFC spreads over less than PyTorch reserves in {spread} of "
        "{tried}."
    )


def _expandable(evidence: EvidenceCollector) -> Text:
    if not evidence.rows(fragmentation.WASTE_RATIO, subject=EXPANDABLE):
        return ""
    waste = pairs(evidence, fragmentation.WASTE_RATIO, EXPANDABLE, GROWTH)
    what = Message("PyTorch with expandable segments: median waste")
    evidence.derive("expandable", what, median, [row for row, _ in waste], "share")
    return Message("With expandable segments PyTorch wastes {expandable}.")


def _counted(
    evidence: EvidenceCollector, what: Message, rows: Sequence[tuple[Row, Row]]
) -> tuple[float, float]:
    """Take in how many pairs the first is larger as evidence, and how many there are."""
    worse = evidence.derive("worse", what, larger, rows, "count")
    return worse, evidence.count("tried", Message("workloads"), rows)
