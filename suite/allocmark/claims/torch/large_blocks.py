"""Large blocks: what a first request takes, the calls that it saves, what it wastes."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import median, ratio
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.shared.rows import pairs
from allocmark.schema.metrics import fragmentation, pressure, streams
from allocmark.system.message import Message
from allocmark.system.units import MIB

_LEAST = 2 * MIB
"""The smallest block that the source document names."""
_REQUESTS = (
    ("small", Message("a request (small)"), MIB),
    ("middle", Message("a request (middle)"), 9 * MIB),
    ("large", Message("a request (large)"), 100 * MIB),
)
_FEWER = 0.5


def _taken(evidence: EvidenceCollector, size: float) -> Row:
    """Return what one request of that size takes from the driver, of the nearest size measured."""
    rows = evidence.rows(pressure.FIRST_RESERVED_BYTES, subject=NATIVE)
    rows = rows or evidence.rows(
        streams.RESERVED_BYTES, subject=NATIVE, use=streams.PRIVATE, streams=1
    )
    if not rows:
        raise evidence.missing(pressure.FIRST_RESERVED_BYTES, subject=NATIVE)
    return min(rows, key=lambda row: (abs(row["bytes"] - size), row["bytes"]))


@partial(
    Claim,
    id="pt-big-block",
    place=(Section.TORCH_TRAITS, 1),
    statement=Message("The first request takes a large block at once, from 2 MB up."),
    experiments=(pressure.EXPERIMENT, streams.EXPERIMENT),
)
def _large_blocks(evidence: EvidenceCollector) -> Verdict:
    found = []
    for name, what, size in _REQUESTS:
        row = _taken(evidence, size)
        requested = evidence.axis(f"{name}_asked", what, row, "bytes", "bytes")
        taken = evidence.show(f"{name}_taken", Message("takes from the driver"), row)
        found.append((requested, taken))
    large_enough = min(taken for _, taken in found) >= _LEAST
    larger = [taken > requested for requested, taken in found]
    return evidence.verdict(
        Ruling.of(large_enough and all(larger), in_part=large_enough and any(larger)),
        Message(
            "{small_asked} takes {small_taken} and {middle_asked} takes {middle_taken}, but "
            "{large_asked} takes {large_taken}. Not the first request only: each one that the "
            "cache cannot serve."
        ),
        Message(
            "Requests up to 1 MiB share 2 MiB segments, those below 10 MiB share 20 MiB segments, "
            "larger ones get a segment of their own size, rounded up to 2 MiB."
        ),
    )


@partial(
    Claim,
    id="pt-fewer-calls",
    place=(Section.TORCH_TRAITS, 2),
    statement=Message("Taking large blocks saves CUDA calls."),
    experiments=(fragmentation.EXPERIMENT,),
)
def _fewer_calls(evidence: EvidenceCollector) -> Verdict:
    calls = pairs(evidence, fragmentation.DRIVER_ALLOCS, NATIVE, NO_CACHE)
    what = Message("requests to the driver with cache over those without")
    share = evidence.derive("share", what, ratio, calls, "share")
    what = Message("requests saved over all workloads")
    evidence.derive("saved", what, lambda calls: sum(b - a for a, b in calls), calls, "calls")
    return evidence.verdict(
        Ruling.of(share < _FEWER, in_part=share < 1),
        Message(
            "Of the requests to the driver without a cache {share} are left, {saved} fewer over "
            "all workloads: by large blocks and their reuse together. Returns are not counted."
        ),
        Message("One segment serves many requests, one after another and side by side."),
    )


@partial(
    Claim,
    id="pt-big-block-waste",
    place=(Section.TORCH_TRAITS, 3),
    statement=Message("Taking large blocks may waste memory."),
    experiments=(pressure.EXPERIMENT, fragmentation.EXPERIMENT),
    first_screen=FirstScreen(
        7, "most", Message("reserved but not allocated at PyTorch's peak, in the worst workload")
    ),
)
def _large_block_waste(evidence: EvidenceCollector) -> Verdict:
    found = evidence.required_rows(pressure.FIRST_RESERVED_BYTES, subject=NATIVE)
    what = Message("most that a segment is larger than the request that it is made for")
    sizes = [float(row["bytes"]) for row in found]
    beyond = evidence.derive(
        "beyond",
        what,
        lambda rows: max(taken - size for taken, size in zip(rows, sizes, strict=True)),
        found,
        "bytes",
    )
    rows = evidence.required_rows(fragmentation.WASTE_RATIO, subject=NATIVE)
    what = Message("reserved but not allocated at the peak, median of workloads")
    evidence.derive("median", what, median, rows, "share")
    what = Message("the same, most by workload")
    evidence.derive("most", what, max, rows, "share")
    return evidence.verdict(
        Ruling.of(beyond > 0),
        Message(
            "A segment is up to {beyond} larger than the request that it is made for, which no "
            "other request need use. Of what is reserved at the peak {median} is not allocated "
            "(median, {most} at most), but that is cache too, which torch releases before it fails."
        ),
        Message("Segments have few sizes: requests below 10 MiB get one of 2 or 20 MiB."),
    )
