"""What the counters are said to show, and whether they announce failed allocations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import share_of_zeros
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.indicators import (
    RULE_30,
    RULE_RETRIES,
    by_run,
    completed,
    predict,
    run_key,
    runs_with,
)
from allocmark.claims.shared.torch import POINTS, kept, shown
from allocmark.schema.metrics import pressure
from allocmark.system.message import Message, sentences

_FIRST_RELEASE, _STATED_RELEASE = "1.4", "1.9"
"""Of PyTorch with num_alloc_retries: by what was published, and by the source document."""
_MANY = 5


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
    what = Message("most that the difference is off the free blocks")
    wrong = evidence.derive("wrong", what, _most_off, points, "bytes")
    return evidence.verdict(
        Ruling.of(wrong == 0),
        Message("Off by {wrong} from the free blocks of the block map at every point."),
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
        "rule_precision",
        Message("of the runs that showed a cache above 30 % failed; of all runs {base}"),
    ),
)
def cache_share(evidence: EvidenceCollector) -> Verdict:
    ruling, lead = predict(evidence, RULE_30)
    condition = Message(
        "Of the {rule_shown} runs that showed it {rule_precision} failed, of all {runs} {base}; "
        "it announced {rule_recall} of the failures."
    )
    return evidence.verdict(
        ruling,
        sentences(condition, lead),
        Message(
            "A cache that can be reused is no fragmentation: the share is large whenever a program "
            "has just freed much, and small just before memory runs out."
        ),
    )


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
            Message("The installed release does not tell it."),
            Message("Its counters were asked for in every run."),
        )
    what = Message("runs in which the installed torch told num_alloc_retries")
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
    ruling, lead = predict(evidence, RULE_RETRIES)
    worse, comparison = _more_are_worse(evidence)
    if ruling is Ruling.HOLDS and not worse:
        ruling = Ruling.IN_PART
    condition = Message(
        "Of the {rule_shown} runs with a retry {rule_precision} failed, of all {runs} {base}; it "
        "announced {rule_recall} of the failures."
    )
    return evidence.verdict(
        ruling,
        sentences(condition, lead, comparison),
        Message(
            "It counts how often the driver refused and the cache was emptied: that happens when "
            "memory is short, fragmented or not."
        ),
    )


def _more_are_worse(evidence: EvidenceCollector) -> tuple[bool, Message]:
    """Return whether more of the runs with many retries failed than of those with few, and the
    sentence on it; without runs of both kinds it is not known, and so is not said to be."""
    limit = str(_MANY)
    runs = [(run, retries) for run, retries in runs_with(evidence, RULE_RETRIES) if retries > 0]
    few = [run for run, retries in runs if retries <= _MANY]
    many = [run for run, retries in runs if retries > _MANY]
    if not few or not many:
        return False, Message(
            "Whether more retries are worse is open: no runs both with 1 to {limit} and with more "
            "to set side by side.",
            limit=limit,
        )
    evidence.count("few_runs", Message("runs with 1 to {limit} retries", limit=limit), few, "runs")
    what = Message("failures among the runs with 1 to {limit} retries", limit=limit)
    of_few = evidence.derive("few", what, share_of_zeros, few, "share")
    evidence.count("many_runs", Message("runs with more than {limit}", limit=limit), many, "runs")
    what = Message("failures among the runs with more than {limit}", limit=limit)
    of_many = evidence.derive("many", what, share_of_zeros, many, "share")
    if of_many <= of_few:
        return False, Message(
            "More retries are not worse: of {few_runs} runs with 1 to {limit} of them {few} "
            "failed, of {many_runs} with more {many}.",
            limit=limit,
        )
    return True, Message(
        "More retries are worse: of {few_runs} runs with 1 to {limit} of them {few} failed, of "
        "{many_runs} with more {many}.",
        limit=limit,
    )
