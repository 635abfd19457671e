"""What memory growth takes and memory_limit limits, and whether growth is the best mode."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.tensorflow_gpu import GROWTH, LIMIT
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import larger
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.rows import Triples, beyond_region, in_one_region, metered, pairs
from allocmark.schema.metrics import capacity, fragmentation
from allocmark.schema.metrics import tensorflow_policy as policy
from allocmark.system.message import Message

_LITTLE = 0.1
_HALF = 0.5


@partial(
    Claim,
    id="tf-growth",
    place=(Section.TENSORFLOW, 6),
    statement=Message("With memory growth TensorFlow takes memory as needed."),
    experiments=(policy.EXPERIMENT,),
)
def _growth(evidence: EvidenceCollector) -> Verdict:
    metrics = policy.LIVE_BYTES, policy.BEYOND_NEED_BYTES, policy.STEPS, policy.LARGEST_STEP_BYTES
    live, beyond, steps, largest = (evidence.row(metric, subject=GROWTH) for metric in metrics)
    evidence.show("beyond", Message("most held beyond need"), beyond)
    evidence.show("live", Message("needed in the end"), live)
    evidence.show("steps", Message("requests to the driver"), steps)
    evidence.show("largest", Message("largest of them"), largest)
    return evidence.verdict(
        Ruling.of(beyond <= _LITTLE * live, in_part=beyond < live),
        Message(
            "In {steps} steps, the largest {largest}: up to {beyond} more than needed on the way "
            "to {live}."
        ),
        Message("Regions double in size as they are taken."),
    )


@partial(
    Claim,
    id="tf-limit",
    place=(Section.TENSORFLOW, 7),
    statement=Message("memory_limit=4096 limits TensorFlow to 4 GB."),
    experiments=(policy.EXPERIMENT,),
    on_context=True,
)
def _limit(evidence: EvidenceCollector) -> Verdict:
    what = Message("memory_limit that was set")
    limit = evidence.show("limit", what, evidence.row(policy.LIMIT_BYTES, subject=LIMIT))
    what = Message("held at the live peak")
    held = evidence.show(
        "held", what, metered(evidence, policy.HELD_BYTES, subject=LIMIT, point=policy.LIVE_PEAK)
    )
    what = Message("beyond the limit without the context")
    rest = evidence.show(
        "rest", what, metered(evidence, policy.ABOVE_LIMIT_BYTES, subject=LIMIT, why=policy.REST)
    )
    return evidence.verdict(
        Ruling.of(held <= limit, in_part=rest <= _LITTLE * limit),
        Message(
            "Tensors stay within {limit}, but the process holds {held}: the context is not counted."
        ),
        Message(
            "The limit is the size of BFC's region. Context, modules and libraries lie outside it, "
            "and the whole region is taken at once."
        ),
    )


@partial(
    Claim,
    id="tf-both",
    place=(Section.TENSORFLOW, 11),
    statement=Message("The printed code sets growth, then a limit, and both are in force."),
    experiments=(policy.EXPERIMENT,),
)
def _both_settings(evidence: EvidenceCollector) -> Verdict:
    code = {"subject": LIMIT, "setting": policy.LIMIT_AFTER_GROWTH}
    what = Message("an error was raised (1: yes)")
    refused = evidence.show("refused", what, evidence.row(policy.SETTING_REFUSED, **code))
    what = Message("taken by the first tensor of 1 MiB")
    taken = evidence.show("taken", what, evidence.row(policy.COMBINED_FIRST_TENSOR_BYTES, **code))
    what = Message("memory_limit that was set")
    limit = evidence.show("limit", what, evidence.row(policy.LIMIT_BYTES, subject=LIMIT))
    grows = taken <= _LITTLE * limit
    raised = Message("An error is raised, and") if refused else Message("No error is raised, and")
    return evidence.verdict(
        Ruling.of(not refused and grows, in_part=not refused and taken <= (1 + _LITTLE) * limit),
        Message(
            "{raised} the first tensor of 1 MiB takes {taken} under a limit of {limit}.",
            raised=raised,
        ),
        Message("Both settings are in force.")
        if grows
        else Message("A device with a memory_limit takes its whole region: growth is dropped."),
    )


@partial(
    Claim,
    id="growth-best",
    place=(Section.TENSORFLOW, 8),
    statement=Message("Memory growth is TensorFlow's mode to recommend."),
    experiments=(policy.EXPERIMENT, fragmentation.EXPERIMENT, capacity.EXPERIMENT),
)
def _growth_best(evidence: EvidenceCollector) -> Verdict:
    what = Message("second process failed")
    failed = evidence.show(
        "failed", what, evidence.row(policy.PAIR_FAILED, subject=GROWTH, second=GROWTH)
    )
    searched = evidence.rows(capacity.CAPACITY_RATIO, subject=LIMIT)
    worse, tried, comparison = (_by_capacity if searched else _by_reserved)(evidence)
    room = Message("It leaves room for a second process, but")
    if failed:
        room = Message("It leaves a second process no room, and")
    return evidence.verdict(
        Ruling.of(not failed and worse <= _HALF * tried, in_part=not failed),
        Message(
            "{room} {worse} of {tried} workloads {comparison}", room=room, comparison=comparison
        ),
        Message(
            "Regions double in size, and free chunks of different regions never merge. Alone on a "
            "card, one region wastes less."
        ),
    )


def _by_capacity(evidence: EvidenceCollector) -> tuple[float, float, Message]:
    """Compare the smallest capacities with growth and in one region."""
    ratios = pairs(evidence, capacity.CAPACITY_RATIO, GROWTH, LIMIT)
    what = Message("workloads that need more memory with growth")
    worse = evidence.derive("worse", what, larger, ratios, "count")
    tried = evidence.count("tried", Message("workloads"), ratios)
    what = Message("most memory it needs against one region")
    evidence.derive(
        "most", what, lambda pairs: max(growth / limit for growth, limit in pairs), ratios
    )
    comparison = Message(
        "need more memory than with one region, up to {most} times as much (smallest capacities)."
    )
    return worse, tried, comparison


def _most_over_region(triples: Triples) -> float:
    return max(held / (region - hole) for held, region, hole in triples)


def _by_reserved(evidence: EvidenceCollector) -> tuple[float, float, Message]:
    """Compare what growth reserves with what blocks spread over in one region."""
    triples = in_one_region(evidence, GROWTH)
    what = Message("workloads that reserve more with growth than they spread over in one region")
    worse = evidence.derive("worse", what, beyond_region, triples, "count")
    tried = evidence.count("tried", Message("workloads"), triples)
    what = Message("most that growth reserves against one region")
    evidence.derive("most", what, _most_over_region, triples)
    comparison = Message(
        "reserve more than they spread over in one region, up to {most} times as much (no "
        "smallest capacity being measured here)."
    )
    return worse, tried, comparison
