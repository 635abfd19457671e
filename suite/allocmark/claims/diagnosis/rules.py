"""What the counters are said to show, and whether they announce failed allocations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import median
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.shared.indicators import (
    RULE_30,
    RULE_RETRIES,
    Runs,
    Sample,
    by_run,
    completed,
    predict,
    run_key,
    runs_with,
    sampled,
)
from allocmark.claims.shared.torch import POINTS, kept, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message, Text, sentences

_FIRST_RELEASE, _STATED_RELEASE = "1.4", "1.9"
"""Of PyTorch with num_alloc_retries: by what was published, and by the source document."""
_MOSTLY = 0.5
"""From this share of a cache on its fragments are called serious."""
_EVEN = 0.5
"""The share of pairs in which one of two alike is ahead."""


def _most_off(points: Sequence[tuple[float, float, float, float]]) -> float:
    """Return the most that reserved is off allocated and both kinds of free blocks together."""
    return max(abs(reserved - sum(blocks)) for reserved, *blocks in points)


@partial(
    Claim,
    id="rule-difference",
    place=(Section.DIAGNOSIS, 2),
    statement=Message("memory_reserved() less memory_allocated() is the cache."),
    experiments=(pressure.EXPERIMENT,),
)
def _difference(evidence: EvidenceCollector) -> Verdict:
    points = [
        (
            shown(evidence, pressure.RESERVED, point),
            shown(evidence, pressure.ALLOCATED, point),
            kept(evidence, pressure.INACTIVE_SPLIT, point),
            kept(evidence, pressure.FREE_SEGMENTS, point),
        )
        for point in POINTS
    ]
    what = Message("largest difference from the free blocks of memory_snapshot()")
    wrong = evidence.derive("wrong", what, _most_off, points, "bytes")
    return evidence.verdict(
        Ruling.of(wrong == 0),
        Message(
            "At most {wrong} off the free blocks of memory_snapshot(), over {points} points.",
            points=str(len(points)),
        ),
        Message("A segment consists of live and free blocks and of nothing else."),
    )


@partial(
    Claim,
    id="rule-30",
    place=(Section.DIAGNOSIS, 3),
    statement=Message("A cache above 30 % of what is reserved means serious fragmentation."),
    experiments=(pressure.EXPERIMENT,),
    first_screen=FirstScreen(
        5,
        "split",
        Message("of PyTorch's cache is fragments (inactive split) where the cache exceeds 30 %"),
    ),
)
def cache_share(evidence: EvidenceCollector) -> Verdict:
    rows = evidence.required_rows(pressure.SPLIT_SHARE_OF_CACHE, subject=NATIVE)
    sample = list(by_workload(rows).values())
    what = Message("inactive split over cache, at a cache share above 30 % (median of workloads)")
    split = evidence.derive_over("split", what, _median_of_medians, sample, "share")
    evidence.count("split_workloads", Message("workloads"), [own[0] for own in sample])
    own = evidence.fresh()
    scores: Text
    try:
        _, scores = predict(own, RULE_30)
    except MissingFigureError as missing:
        scores = Message("Not scored as a predictor of failed allocations: {reason}.",
                         reason=missing.reason)  # fmt: skip
    evidence.collected += own.collected
    return evidence.verdict(
        split.at_least(_MOSTLY),
        sentences(
            Message(
                "At readings with a cache share above 30 % and a quarter of the capacity reserved, "
                "{split} of the cache is inactive split, a median over {split_workloads} workloads "
                "(default settings); the rest are free segments. It holds from half of the cache "
                "on."
            ),
            scores,
        ),
        Message(
            "The share counts free segments as well as free blocks in split ones; only the latter "
            "are fragments that torch cannot release."
        ),
    )


def by_workload(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return rows by their workload."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["workload"]), []).append(row)
    return found


def _median_of_medians(sample: Sequence[Sequence[float]]) -> float:
    return median([median(own) for own in sample])


@partial(
    Claim,
    id="rule-version",
    place=(Section.DIAGNOSIS, 4),
    statement=Message("memory_stats() with num_alloc_retries is there since PyTorch 1.9."),
    experiments=(pressure.EXPERIMENT,),
    published=(
        "Published: pytorch/pytorch#27361 (torch.cuda.memory_stats, October 2019);",
        "torch 1.3.1 and 1.4.0 as published on PyPI: torch/cuda/memory.py",
    ),
)
def _retries_version(evidence: EvidenceCollector) -> Verdict:
    retries = by_run(evidence, pressure.RETRIES)
    runs = map(run_key, completed(evidence))
    rows = [retries[run] for run in runs if run in retries]
    if not rows:
        return evidence.verdict(
            Ruling.FAILS,
            Message("The installed release does not report it."),
            Message("Its counters were read in every run."),
        )
    what = Message("runs reporting num_alloc_retries")
    evidence.count("read", what, rows, "runs")
    return evidence.verdict(
        Ruling.of(_FIRST_RELEASE == _STATED_RELEASE, in_part=True),
        Message(
            "The installed release offers it, but so does every release from {first}.0 on, not "
            "only from {stated} on (runs in which it was read: {read}).",
            first=_FIRST_RELEASE,
            stated=_STATED_RELEASE,
        ),
        Message(
            "memory_stats came with pull request 27361 of October 2019: 1.3.1 has memory_cached "
            "only, 1.4.0 has num_alloc_retries."
        ),
    )


@partial(
    Claim,
    id="rule-retries",
    place=(Section.DIAGNOSIS, 5),
    statement=Message("The larger num_alloc_retries, the worse the fragmentation."),
    experiments=(pressure.EXPERIMENT,),
)
def more_retries(evidence: EvidenceCollector) -> Verdict:
    ruling, scores = predict(evidence, RULE_RETRIES)
    pairs = [
        own for own in map(_failed_and_completed, sampled(runs_with(evidence, RULE_RETRIES))) if own
    ]
    what = Message("of pairs, more retries in the run that failed (equal numbers: half)")
    more = evidence.derive_over("more", what, _more_in_failed, pairs, "share")
    sure = more.at_least(_EVEN)
    if ruling is Ruling.HOLDS and sure is not Ruling.HOLDS:
        ruling = Ruling.IN_PART if sure is Ruling.FAILS else Ruling.UNDECIDED
    return evidence.verdict(
        ruling,
        sentences(
            scores,
            Message(
                "Of a run that failed and one that completed, in the same capacity under another "
                "setting, the one that failed had more retries in {more} of the pairs (50 %: no "
                "difference)."
            ),
        ),
        Message(
            "The counter grows each time that cudaMalloc fails and the cache is released: when "
            "memory is short, fragmented or not."
        ),
    )


def _failed_and_completed(runs: Runs) -> list[tuple[Row, Row]]:
    """Return of one workload what each failed run showed, beside each completed one in the same
    capacity."""
    return [
        (of_failed, of_completed)
        for failed, of_failed in runs
        for done, of_completed in runs
        if not failed and done and failed["capacity_ratio"] == done["capacity_ratio"]
    ]


def _more_in_failed(sample: Sample) -> float:
    """Return the share of pairs in which the first is larger, each workload weighing the same."""
    shares = [sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs) for pairs in sample]
    return sum(shares) / len(shares)
