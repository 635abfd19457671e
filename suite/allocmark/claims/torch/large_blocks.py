"""The first request takes a large block from the driver."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.schema.metrics import pressure, streams
from allocmark.system.message import Message
from allocmark.system.units import MIB

_LEAST = 2 * MIB
"""The smallest block that the source document names."""
_REQUESTS = (
    ("small", Message("a request (small)"), MIB),
    ("middle", Message("a request (middle)"), 9 * MIB),
    ("large", Message("a request (large)"), 100 * MIB),
)


def _taken(evidence: EvidenceCollector, size: float) -> Row:
    """Return what one request of that size takes from the driver, of the nearest size measured."""
    rows = evidence.rows(pressure.FIRST_RESERVED_BYTES, subject=NATIVE)
    rows = rows or evidence.rows(
        streams.RESERVED_BYTES, subject=NATIVE, use=streams.PRIVATE, streams=1
    )
    if not rows:
        raise evidence.missing(pressure.FIRST_RESERVED_BYTES, subject=NATIVE)
    return min(rows, key=lambda row: (abs(row["bytes"] - size), row["bytes"]))


def _rule(evidence: EvidenceCollector) -> Verdict:
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


CLAIM = Claim(
    id="pt-big-block",
    section=Section.TORCH_TRAITS,
    order=1,
    statement=Message("The first request takes a large block at once, from 2 MB up."),
    experiments=(pressure.EXPERIMENT, streams.EXPERIMENT),
    rule=_rule,
)
