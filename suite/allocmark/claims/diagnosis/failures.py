"""Where failed allocations come from, and whether that can be told."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import Pairs, share_of_positives
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.shared.indicators import (
    RULE_30,
    RULE_RETRIES,
    RunKey,
    base_rate,
    beats_guessing,
    by_run,
    failures,
    readings,
    runs_with,
    score,
)
from allocmark.claims.shared.rows import Triples
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message

_MOST = 0.5
_OFTEN = 1 / 3


def _share_with_enough(triples: Triples) -> float:
    """Return in what share of failures cached and free bytes together reach the request."""
    return sum(cached + free >= size for cached, free, size in triples) / len(triples)


def _share_announced(pairs: Pairs) -> float:
    """Return in what share of failures at least one of the two rules' indicators was seen."""
    seen = (cache > RULE_30.above or retries > RULE_RETRIES.above for cache, retries in pairs)
    return sum(seen) / len(pairs)


@partial(
    Claim,
    id="most-oom",
    place=(Section.DIAGNOSIS, 6),
    statement=Message("With these strategies and rules most OOMs can be traced to their cause."),
    experiments=(pressure.EXPERIMENT,),
    first_screen=FirstScreen(
        9, "enough", Message("of the failures had enough bytes free, but in pieces")
    ),
)
def _most_failures(evidence: EvidenceCollector) -> Verdict:
    failed = failures(evidence)
    cached = by_run(evidence, pressure.FAILED_CACHED_BYTES)
    free = by_run(evidence, pressure.FAILED_DEVICE_FREE_BYTES)
    requests = by_run(evidence, pressure.FAILED_REQUEST_BYTES)
    triples = [
        (cached[run], free[run], requests[run])
        for run in failed
        if run in cached and run in free and run in requests
    ]
    if not triples:
        raise evidence.missing(pressure.FAILED_CACHED_BYTES)
    what = Message("failures at which enough bytes were free, but in pieces")
    enough = evidence.derive("enough", what, _share_with_enough, triples, "share")
    shares, retries = (readings(evidence, rule.metric) for rule in (RULE_30, RULE_RETRIES))
    evidence.derive(
        "announced",
        Message("failures that at least one of the two rules announced"),
        _share_announced,
        [(shares[run], retries[run]) for run in failed if run in shares and run in retries],
        "share",
    )
    by_share, by_retries = (runs_with(evidence, rule) for rule in (RULE_30, RULE_RETRIES))
    base = base_rate(evidence, by_share)
    precisions = [
        score(evidence, "share", RULE_30, by_share)[0],
        score(evidence, "retries", RULE_RETRIES, by_retries)[0],
    ]
    explained = enough > _MOST
    return evidence.verdict(
        Ruling.of(explained and beats_guessing(min(precisions), base), in_part=explained),
        Message(
            "In {enough} of the failures enough bytes were free, only not in one piece: that the "
            "layout explains. At least one rule announced {announced}, but it announced runs "
            "that completed too: precision {share_precision} and {retries_precision}, where "
            "{base} of all runs failed."
        ),
        Message("What explains a failure afterwards need not have announced it."),
    )


@partial(
    Claim,
    id="not-size",
    place=(Section.WHOLE, 1),
    statement=Message(
        "An OOM often comes from the allocation strategy, not from the size of the model."
    ),
    experiments=(pressure.EXPERIMENT,),
)
def _not_size(evidence: EvidenceCollector) -> Verdict:
    failed = [run[1:] for run in failures(evidence) if run[0] == NATIVE]
    if not failed:
        raise evidence.missing(pressure.COMPLETED, subject=NATIVE)
    others: dict[RunKey, list[Row]] = {}
    for run, row in by_run(evidence, pressure.COMPLETED).items():
        if run[0] != NATIVE:
            others.setdefault(run[1:], []).append(row)
    best = [max(others[same]) for same in failed if same in others]
    what = Message("failures that another setting avoids")
    share = evidence.derive("share", what, share_of_positives, best, "share")
    evidence.count("failures", Message("failed runs as torch comes"), best, "runs")
    return evidence.verdict(
        Ruling.of(share >= _OFTEN, in_part=share > 0),
        Message(
            "Of {failures} failures of torch as it comes, in 1 to 2 live peaks of memory, {share} "
            "do not occur in the same memory under another setting."
        ),
        Message("The live bytes are the same; what is free lies in pieces that are too small."),
    )
