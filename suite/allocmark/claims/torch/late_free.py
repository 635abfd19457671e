"""Memory that stays cached: whether it makes requests faster and fragmentation worse."""

from __future__ import annotations

from functools import partial

from allocmark.allocators import registry
from allocmark.allocators.torch_caching import EXPANDABLE, NATIVE, NO_CACHE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import larger, median, ratio
from allocmark.claims.core.evidence_collector import EvidenceCollector, Row
from allocmark.claims.core.over_workloads import in_most
from allocmark.claims.shared.rows import pairs
from allocmark.claims.shared.torch import call_ns
from allocmark.schema import notes
from allocmark.schema.metrics import capacity, fragmentation, latency
from allocmark.system.message import Message

_FASTER = 2.0


@partial(
    Claim,
    id="pt-late-free",
    place=(Section.TORCH_TRAITS, 6),
    statement=Message(
        "Freed memory goes to the cache and is not returned at once: later requests are faster."
    ),
    experiments=(latency.EXPERIMENT,),
    on_time=True,
)
def _late_free(evidence: EvidenceCollector) -> Verdict:
    miss, hit = (call_ns(evidence, path, latency.PAIR) for path in (latency.MISS, latency.HIT))
    evidence.show("miss", Message("alloc and free that ask the driver"), miss)
    evidence.show("hit", Message("alloc and free from the cache"), hit)
    times, sentence = _times_longer(evidence, miss, hit)
    # Misses spread widely: even the fastest must be slower than a usual hit.
    surely = times > _FASTER and miss["minimum"] > hit
    return evidence.verdict(
        Ruling.of(surely, in_part=times > 1),
        sentence,
        Message("A hit is a look-up in a tree; a miss maps memory in the driver."),
    )


def _times_longer(evidence: EvidenceCollector, miss: Row, hit: Row) -> tuple[float, Message]:
    """Take how many times as long a miss takes as a hit as evidence, and return the sentence.

    A hit is scaled to one core speed and a miss is not: it waits for the driver. By the speed that
    the hit's core was seen at, the hit is brought back to the clock, so that both are read alike.
    """
    what = Message("how many times longer a miss takes")
    if not _scaled(hit) or _scaled(miss):
        return evidence.derive("times", what, ratio, [(miss, hit)]), Message(
            "At 2 MiB a hit takes {hit} for alloc and free, a miss {miss}: {times} times as long."
        )
    speed = evidence.note(hit, notes.CORE_SPEED_NS)
    seen = evidence.note(hit, notes.CORE_SPEED_SEEN_NS)
    if speed is None or seen is None:
        return evidence.derive("times", what, ratio, [(miss, hit)]), Message(
            "At 2 MiB a hit takes {hit} for alloc and free at one core pace, a miss {miss} by the "
            "clock: {times} times as long, on clocks that are not the same."
        )
    scale = speed / seen
    what = Message("the same by the clock, at its core's usual pace")
    evidence.derive("hit_by_clock", what, lambda hits: hits[0] / scale, [hit], "ns")
    what = Message("how many times longer a miss takes, by the clock")
    times = evidence.derive("times", what, lambda pairs: ratio(pairs) * scale, [(miss, hit)])
    return times, Message(
        "At 2 MiB a hit takes {hit_by_clock} for alloc and free by the clock ({hit} at one core "
        "pace), a miss {miss} by the clock: {times} times as long."
    )


def _scaled(row: Row) -> bool:
    return bool(row["scaled_to_core_speed"])


@partial(
    Claim,
    id="pt-late-free-frag",
    place=(Section.TORCH_TRAITS, 7),
    statement=Message("Fragmentation gets worse because freed memory stays cached."),
    experiments=(capacity.EXPERIMENT, fragmentation.EXPERIMENT),
)
def _late_free_fragmentation(evidence: EvidenceCollector) -> Verdict:
    without_cache = registry()[NO_CACHE].same_driver_calls or NO_CACHE
    if evidence.rows(capacity.CAPACITY_RATIO, subject=without_cache):
        return _by_capacity(evidence, without_cache)
    waste = pairs(evidence, fragmentation.WASTE_RATIO, NATIVE, NO_CACHE)
    cached, without = zip(*waste, strict=True)
    what = Message("workloads with more waste with the cache")
    evidence.derive("worse", what, larger, waste, "count")
    evidence.count("tried", Message("workloads"), waste)
    evidence.derive("with", Message("median waste with the cache"), median, cached, "share")
    evidence.derive("without", Message("median waste without it"), median, without, "share")
    waste = pairs(evidence, fragmentation.WASTE_RATIO, EXPANDABLE, NO_CACHE)
    what = Message("workloads with more waste with expandable segments")
    evidence.derive("expandable", what, larger, waste, "count")
    return evidence.verdict(
        # Cache that torch would release before it fails is in it: this cannot decide.
        Ruling.UNDECIDED,
        Message(
            "By waste, no smallest capacity being measured here: more of it in {worse} of {tried} "
            "workloads, {with} against {without} (medians); with expandable segments in "
            "{expandable}."
        ),
        Message(
            "A block that stays alive holds its whole segment, and what is free in it serves "
            "smaller requests only."
        ),
    )


def _by_capacity(evidence: EvidenceCollector, without_cache: str) -> Verdict:
    """Compare what workloads need at least: a cache that is released in time costs nothing."""
    ratios = pairs(evidence, capacity.CAPACITY_RATIO, NATIVE, without_cache)
    cached, without = zip(*ratios, strict=True)
    what = Message("workloads that need more memory with the cache")
    worse = evidence.derive("worse", what, larger, ratios, "count")
    tried = evidence.count("tried", Message("workloads"), ratios)
    what = Message("smallest capacity over live peak with the cache, median")
    evidence.derive("with", what, median, cached)
    what = Message("the same without a cache")
    evidence.derive("without", what, median, without)
    ruling = in_most(worse, tried)
    if ruling is Ruling.HOLDS and worse < tried:
        ruling = Ruling.IN_PART
    return evidence.verdict(
        ruling,
        Message(
            "By the smallest capacity in which workloads complete: more memory is needed with the "
            "cache in {worse} of {tried} workloads ({with} against {without} live peaks, medians)."
        ),
        Message("Free blocks beside live ones cannot be released, however late memory runs out."),
    )
