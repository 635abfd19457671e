"""The way of a request from ``.cuda()`` to memory, as one sentence."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import Pairs, positives, ratio, total, zeros
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.shared.rows import pairs
from allocmark.schema.metrics import fragmentation, pressure
from allocmark.system.message import Message


def _without_retry(runs: Pairs) -> float:
    """Return how many runs failed without a retry, of pairs of completed and retries."""
    return float(sum(completed == 0 and retries == 0 for completed, retries in runs))


def _runs(evidence: EvidenceCollector) -> list[tuple[Row, Row]]:
    """Return completed and retries of each run in short memory."""
    retries = {
        (row["workload"], row["capacity_ratio"]): row
        for row in evidence.required_rows(pressure.RETRIES, subject=NATIVE)
    }
    return [
        (row, retries[place])
        for row in evidence.required_rows(pressure.COMPLETED, subject=NATIVE)
        if (place := (row["workload"], row["capacity_ratio"])) in retries
    ]


@partial(
    Claim,
    id="flow",
    place=(Section.FLOW, 1),
    statement=Message(
        "The chart of this section is missing from the document's text. The sentence judged is "
        "ours: the cache is searched first, then the driver asked for a segment, then the cache "
        "released and the driver asked again."
    ),
    experiments=(fragmentation.EXPERIMENT, pressure.EXPERIMENT),
)
def _flow(evidence: EvidenceCollector) -> Verdict:
    calls = pairs(evidence, fragmentation.DRIVER_ALLOCS, NATIVE, NO_CACHE)
    what = Message("requests served from the cache, of all workloads together")
    served = evidence.derive("hits", what, lambda calls: 1 - ratio(calls), calls, "share")
    what = Message("requests to the driver, all workloads")
    called = evidence.derive("calls", what, total, [first for first, _ in calls], "calls")
    runs = _runs(evidence)
    evidence.count("runs", Message("runs in 1 to 2 live peaks"), runs, "runs")
    what = Message("runs with a retry")
    again = evidence.derive("retried", what, positives, [own for _, own in runs], "runs")
    what = Message("runs that failed")
    evidence.derive("failed", what, zeros, [completed for completed, _ in runs], "runs")
    what = Message("runs that failed without a retry")
    untried = evidence.derive("untried", what, _without_retry, runs, "runs")
    parts = [served > 0, called > 0, again > 0 and untried == 0]
    return evidence.verdict(
        Ruling.of(all(parts), in_part=any(parts)),
        Message(
            "Without a limit the cache serves {hits} of all requests, cudaMalloc is called {calls} "
            "times. Of {runs} runs in short memory {retried} released the cache and tried again; "
            "{failed} failed, {untried} of them without a retry."
        ),
        Message(
            "Before the search the size is rounded and the pool chosen; a block that was found is "
            "cut afterwards, be it cached or new."
        ),
    )
