"""What PyTorch's counters and its block map show at each point of the crafted program."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.derivations import difference
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.schema.metrics import latency, pressure
from allocmark.system.message import Message
from allocmark.system.units import MIB

POINTS = pressure.POINTS[1:]
"""Those at which something is reserved."""
TIMED_BYTES = 2 * MIB
_OF_DEVICE = (pressure.NVML_PROCESS, pressure.MEM_GET_INFO_USED)
"""Counters that show what the process holds of the card, the one nvidia-smi prints first."""


def shown(evidence: EvidenceCollector, counter: str, point: str) -> Row:
    """Return what a counter shows at a point."""
    return evidence.row(pressure.SHOWN_BYTES, subject=NATIVE, counter=counter, point=point)


def of_device(evidence: EvidenceCollector, point: str) -> Row:
    """Return what the process holds of the card at a point, by the meter that sees it."""
    for counter in _OF_DEVICE:
        where = {"subject": NATIVE, "counter": counter, "point": point}
        if rows := evidence.rows(pressure.SHOWN_BYTES, **where):
            return rows[0]
    raise evidence.missing(pressure.SHOWN_BYTES, subject=NATIVE, point=point)


def kept(evidence: EvidenceCollector, why: str, point: str) -> Row:
    """Return what the block map says is kept for a reason."""
    return evidence.row(pressure.KEPT_BYTES, subject=NATIVE, why=why, point=point)


def released(evidence: EvidenceCollector) -> tuple[float, float]:
    """Return what the card gets back when the cache is emptied: all freed, and half freed."""
    whole = [(of_device(evidence, pressure.ALL_FREED), of_device(evidence, pressure.ALL_EMPTIED))]
    what = Message("given back to the driver, all blocks freed")
    returned = evidence.derive("returned", what, difference, whole, "bytes")
    half = [(of_device(evidence, pressure.HALF_FREED), of_device(evidence, pressure.HALF_EMPTIED))]
    what = Message("given back with every second block alive")
    return returned, evidence.derive("half", what, difference, half, "bytes")


def call_ns(evidence: EvidenceCollector, path: str, call: str) -> Row:
    """Return the time until the call returns, at the allocator's own entry point, for 2 MiB."""
    return evidence.row(
        latency.CALL_NS,
        subject=NATIVE,
        path=path,
        call=call,
        level=latency.ALLOCATOR,
        wait=latency.HOST,
        bytes=TIMED_BYTES,
    )
