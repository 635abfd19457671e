"""What each framework takes by default."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, Ruling, Section, Verdict
from allocmark.claims.core.derivations import median, ratio
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.halves import both
from allocmark.claims.shared.tensorflow import NEARLY_ALL, share_taken
from allocmark.claims.shared.torch import shown
from allocmark.schema.metrics import fragmentation, pressure, tensorflow_policy
from allocmark.system.message import Message

_ON_DEMAND = 1.1
"""What is reserved is on demand up to so many times the live bytes."""
_HALF = 0.5


@partial(
    Claim,
    id="cmp-default-pt",
    place=(Section.COMPARISON, 2),
    statement=Message("PyTorch takes memory on demand and reuses its cache."),
    experiments=(pressure.EXPERIMENT, fragmentation.EXPERIMENT),
)
def _torch(evidence: EvidenceCollector) -> Verdict:
    what = Message("reserved before the first request")
    before = evidence.show("before", what, shown(evidence, pressure.RESERVED, pressure.BEFORE))
    counters = pressure.RESERVED, pressure.ALLOCATED
    reserved, live = (shown(evidence, counter, pressure.TAKEN) for counter in counters)
    what = Message("reserved over live bytes")
    over = evidence.derive("over", what, ratio, [(reserved, live)])
    rows = evidence.required_rows(fragmentation.HIT_SHARE, subject=NATIVE)
    what = Message("requests served from the cache, median of workloads")
    hits = evidence.derive("hits", what, median, rows, "share")
    on_demand = before == 0 and over < _ON_DEMAND
    reused = hits > _HALF
    return evidence.verdict(
        Ruling.of(on_demand and reused, in_part=on_demand or reused),
        Message(
            "PyTorch holds {before} at first and {over} times the live bytes of a first GiB; "
            "{hits} of requests are served from the cache (median of the workloads)."
        ),
        Message("It asks the driver for a segment only when the cache has no block that fits."),
    )


@partial(
    Claim,
    id="cmp-default-tf",
    place=(Section.COMPARISON, 3),
    statement=Message("TensorFlow takes all memory, greedily."),
    experiments=(tensorflow_policy.EXPERIMENT,),
)
def _tensorflow(evidence: EvidenceCollector) -> Verdict:
    share = share_taken(evidence, "share", tensorflow_policy.FIRST_TENSOR)
    return evidence.verdict(
        Ruling.of(share >= NEARLY_ALL),
        Message("TensorFlow holds {share} of the card after its first tensor."),
        Message("Its allocator takes one region as large as it can get."),
    )


OF_BOTH = Claim(
    both(_torch, _tensorflow),
    composite=True,
    id="cmp-default",
    place=(Section.COMPARISON, 1),
    statement=Message("PyTorch takes memory on demand and reuses it; TensorFlow takes all."),
    experiments=(pressure.EXPERIMENT, fragmentation.EXPERIMENT, tensorflow_policy.EXPERIMENT),
)
