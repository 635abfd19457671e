"""How each framework gives memory back."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.tensorflow_gpu import GROWTH
from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import difference, positives
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.halves import both
from allocmark.claims.shared.rows import metered
from allocmark.claims.shared.torch import of_device
from allocmark.schema.metrics import pressure
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message, Text, sentences

_LITTLE = 0.1
_MOST = 0.9


@partial(
    Claim,
    id="cmp-reclaim-pt",
    place=(Section.COMPARISON, 9),
    statement=Message("PyTorch gives back late, and by hand with empty_cache."),
    experiments=(pressure.EXPERIMENT,),
)
def _torch(evidence: EvidenceCollector) -> Verdict:
    taken, freed, emptied = (
        of_device(evidence, point)
        for point in (pressure.TAKEN, pressure.ALL_FREED, pressure.ALL_EMPTIED)
    )
    what = Message("given back when all is freed")
    by_itself = evidence.derive("itself", what, difference, [(taken, freed)], "bytes")
    what = Message("given back by empty_cache")
    by_hand = evidence.derive("hand", what, difference, [(freed, emptied)], "bytes")
    completed = {
        (row["workload"], row["capacity_ratio"])
        for row in evidence.rows(pressure.COMPLETED, subject=NATIVE)
        if row > 0
    }
    retries = evidence.required_rows(pressure.RETRIES, subject=NATIVE)
    rows = [row for row in retries if (row["workload"], row["capacity_ratio"]) in completed]
    if not rows:
        raise evidence.missing(pressure.COMPLETED, subject=NATIVE)
    what = Message("completed runs in which it gave its cache back by itself")
    saved = evidence.derive("saved", what, positives, rows, "runs")
    late = by_itself <= 0 and by_hand > 0
    return evidence.verdict(
        Ruling.of(late and saved == 0, in_part=late),
        Message(
            "PyTorch: {itself} go back when all is freed, {hand} by empty_cache. By hand is not "
            "the only way: it empties the cache when the driver refuses (runs completed by that: "
            "{saved})."
        ),
        Message("A refusal empties the cache before the allocation is tried again."),
    )


@partial(
    Claim,
    id="cmp-reclaim-tf",
    place=(Section.COMPARISON, 10),
    statement=Message("TensorFlow gives back by itself, but slowly."),
    experiments=(policy.EXPERIMENT,),
)
def _tensorflow(evidence: EvidenceCollector) -> Verdict:
    what = Message("tensors that were dropped")
    live = evidence.show("live", what, evidence.row(policy.LIVE_BYTES, subject=GROWTH))
    row = metered(evidence, policy.RETURNED_BYTES, subject=GROWTH, after=policy.DROPPED)
    dropped = evidence.show("dropped", Message("given back at once"), row)
    after, seconds = policy.AFTER_5_S, "5"
    if not evidence.rows(policy.RETURNED_BYTES, subject=GROWTH, after=after):
        after, seconds = policy.AFTER_1_S, "1"
    what = Message("given back: {seconds} s later", seconds=seconds)
    row = metered(evidence, policy.RETURNED_BYTES, subject=GROWTH, after=after)
    later = evidence.show("later", what, row)
    idle = later > _LITTLE * live
    by_need, needed, cause = _when_needed(evidence, idle)
    ruling = Ruling.of(idle and dropped < _MOST * later, in_part=idle or by_need)
    if not idle and not evidence.rows(policy.RELEASE_FAILED, subject=GROWTH):
        ruling = Ruling.UNDECIDED  # What goes back by need would make it hold in part.
    return evidence.verdict(
        ruling,
        sentences(
            Message(
                "TensorFlow: of {live} dropped, {dropped} go back at once and {later} {seconds} s "
                "later, with growth.",
                seconds=seconds,
            ),
            needed,
        ),
        cause,
    )


def _when_needed(evidence: EvidenceCollector, idle: bool) -> tuple[bool, Text, Text]:
    """Take what goes back when the next request would not fit as evidence, where it was tried.

    Return whether anything does, the sentence on it, and the cause.
    """
    if not evidence.rows(policy.RELEASE_FAILED, subject=GROWTH):
        return (
            False,
            Message("What goes back when the next request would not fit was not measured here."),
            "" if idle else Message("BFC releases nothing on idleness."),
        )
    where = {"subject": GROWTH, "collection": policy.DEFAULT}
    what = Message("larger request failed (1: yes)")
    failed = evidence.show("failed", what, evidence.row(policy.RELEASE_FAILED, **where))
    without = evidence.rows(policy.RELEASE_FAILED, subject=GROWTH, collection=policy.OFF)
    if failed:
        return (
            False,
            Message("A request that needs that memory fails all the same."),
            "" if idle else Message("BFC keeps its regions until the process ends."),
        )
    what = Message("released for a request that would not fit")
    released = evidence.show("released", what, evidence.row(policy.RELEASED_BYTES, **where))
    sentence: Text = Message("For a request that would not fit, {released} go back at once.")
    if without and evidence.show(
        "without", Message("it failed without garbage collection (1: yes)"), without[0]
    ):
        off = Message("With TF_ENABLE_GPU_GARBAGE_COLLECTION=false that request fails.")
        sentence = sentences(sentence, off)
    return (
        released > 0,
        sentence,
        Message("BFC frees regions that are wholly free when the driver refuses another one."),
    )


OF_BOTH = Claim(
    both(_torch, _tensorflow),
    composite=True,
    id="cmp-reclaim",
    place=(Section.COMPARISON, 8),
    statement=Message("PyTorch gives back late and by hand; TensorFlow by itself but slowly."),
    experiments=(pressure.EXPERIMENT, policy.EXPERIMENT),
)
