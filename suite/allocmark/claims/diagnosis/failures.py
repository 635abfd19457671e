"""Where failed allocations come from, and whether that can be told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.shared.indicators import (
    RULE_30,
    RULE_RETRIES,
    RunKey,
    base_rate,
    by_run,
    completed,
    contested,
    readings,
    run_key,
    runs_with,
    score,
)
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message

_MOST = 0.5
_OFTEN = 1 / 3


def _mean(sample: Sequence[Sequence[bool]]) -> float:
    """Return a share, each workload weighing the same."""
    return sum(sum(own) / len(own) for own in sample) / len(sample)


def _share_with_enough(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
    """Return in what share of failures cached and free bytes together reach the request."""
    return _mean([[cached + free >= size for cached, free, size in own] for own in sample])


def _share_preceded(sample: Sequence[Sequence[tuple[float, ...]]]) -> float:
    """Return in what share of failures at least one of the two rules' indicators was seen."""
    return _mean(
        [
            [cache > RULE_30.above or retries > RULE_RETRIES.above for cache, retries in own]
            for own in sample
        ]
    )


@partial(
    Claim,
    id="most-oom",
    place=(Section.DIAGNOSIS, 6),
    statement=Message("With these strategies and rules most OOMs can be traced to their cause."),
    experiments=(pressure.EXPERIMENT,),
    first_screen=FirstScreen(
        9, "enough", Message("of avoidable failures had enough free bytes, in pieces")
    ),
)
def _most_failures(evidence: EvidenceCollector) -> Verdict:
    failed = [run_key(row) for row in contested(evidence) if row == 0.0]
    cached, free, requests = (
        by_run(evidence, metric)
        for metric in (
            pressure.FAILED_CACHED_BYTES,
            pressure.FAILED_DEVICE_FREE_BYTES,
            pressure.FAILED_REQUEST_BYTES,
        )
    )
    triples = _by_workload(
        {
            run: (cached[run], free[run], requests[run])
            for run in failed
            if run in cached and run in free and run in requests
        }
    )
    if not triples:
        raise evidence.missing(pressure.FAILED_CACHED_BYTES)
    what = Message("failures with enough free bytes, in pieces")
    enough = evidence.derive_over("enough", what, _share_with_enough, triples, "share")
    evidence.count("failures", Message("failed runs"), [row for own in triples for row in own])
    shares, retries = (readings(evidence, rule.metric) for rule in (RULE_30, RULE_RETRIES))
    both = _by_workload(
        {run: (shares[run], retries[run]) for run in failed if run in shares and run in retries}
    )
    what = Message("failures that at least one of the two rules preceded")
    evidence.derive_over("preceded", what, _share_preceded, both, "share")
    base_rate(evidence, runs_with(evidence, RULE_RETRIES))
    rulings = {
        score(evidence, name, rule, runs_with(evidence, rule))
        for name, rule in (("share", RULE_30), ("retries", RULE_RETRIES))
    }
    return evidence.verdict(
        _explained(enough.at_least(_MOST), rulings),
        Message(
            "Of {failures} failures in capacities in which another setting completes, {enough} had "
            "enough free bytes, only not in one piece: that the layout explains. At least one of "
            "the 30 % rule and the retries rule preceded {preceded}, with recalls of "
            "{share_recall} and {retries_recall}; base rate {base}."
        ),
        Message("What explains a failure afterwards need not predict it."),
    )


def _explained(layout: Ruling, rules: set[Ruling]) -> Ruling:
    """Return that the layout explains most failures, and in part where no rule predicts them."""
    if layout is not Ruling.HOLDS:
        return layout
    if rules <= {Ruling.HOLDS, Ruling.IN_PART}:
        return Ruling.HOLDS
    return Ruling.IN_PART if Ruling.FAILS in rules else Ruling.UNDECIDED


def _by_workload(found: dict[RunKey, tuple[Row, ...]]) -> list[list[tuple[Row, ...]]]:
    sample: dict[str, list[tuple[Row, ...]]] = {}
    for run, rows in found.items():
        sample.setdefault(str(run[1]), []).append(rows)
    return list(sample.values())


def _share_avoided(sample: Sequence[Sequence[float]]) -> float:
    return _mean([[completed > 0 for completed in own] for own in sample])


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
    runs = {run_key(row): row for row in completed(evidence)}
    possible = {run[2] for run, row in runs.items() if row > 0}
    failed = [run[1:] for run, row in runs.items() if run[0] == NATIVE and row == 0.0]
    others: dict[RunKey, list[Row]] = {}
    for run, row in runs.items():
        if run[0] != NATIVE:
            others.setdefault(run[1:], []).append(row)
    best: dict[str, list[Row]] = {}
    for workload, ratio in failed:
        if ratio in possible and (workload, ratio) in others:
            best.setdefault(str(workload), []).append(max(others[workload, ratio]))
    if not best:
        raise MissingFigureError(
            Message("no failure of the default settings in a capacity in which anything completes")
        )
    sample = list(best.values())
    what = Message("failures that another setting avoids")
    share = evidence.derive_over("share", what, _share_avoided, sample, "share")
    evidence.count("failures", Message("failed runs, default settings"),
                   [row for own in sample for row in own], "runs")  # fmt: skip
    evidence.count("workloads", Message("workloads"), [own[0] for own in sample])
    return evidence.verdict(
        share.at_least(_OFTEN),
        Message(
            "Of {failures} failures of {workloads} workloads under default settings, in capacities "
            "in which any run completes, {share} do not occur in the same capacity under another "
            "setting. It holds from a third on."
        ),
        Message("The workload is the same in each of these pairs of runs; the setting is not."),
    )
