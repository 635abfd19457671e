"""That freed memory stays in the cache, and where empty_cache() gives it back to."""

from __future__ import annotations

from functools import partial

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Claim, FirstScreen, Ruling, Section, Verdict
from allocmark.claims.core.derivations import median
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.shared.torch import kept, released, shown
from allocmark.schema.metrics import fragmentation, pressure
from allocmark.system.message import Message

_MOSTLY = 0.5


@partial(
    Claim,
    id="pt-cache",
    place=(Section.TORCH, 1),
    statement=Message("PyTorch keeps freed memory and reuses it instead of asking CUDA each time."),
    experiments=(pressure.EXPERIMENT, fragmentation.EXPERIMENT),
    first_screen=FirstScreen(6, "hits", Message("of requests served from PyTorch's cache")),
)
def _cache(evidence: EvidenceCollector) -> Verdict:
    what = Message("reserved when all blocks have been freed")
    reserved = evidence.show(
        "reserved", what, shown(evidence, pressure.RESERVED, pressure.ALL_FREED)
    )
    hits = evidence.required_rows(fragmentation.HIT_SHARE, subject=NATIVE)
    what = Message("requests served from the cache, median of workloads")
    usual = evidence.derive("hits", what, median, hits, "share")
    least = evidence.derive("least", Message("the fewest in a workload"), min, hits, "share")
    reused = reserved > 0 and usual > 0
    return evidence.verdict(
        Ruling.of(reused and least > _MOSTLY, in_part=reused),
        Message(
            "{reserved} stay reserved when all is freed; of the requests {hits} are served "
            "without the driver (median of the workloads, at least {least})."
        ),
        Message(
            "A free puts the block on a list of its stream, and the next request looks there first."
        ),
    )


@partial(
    Claim,
    id="pt-empty-cache",
    place=(Section.TORCH, 2),
    statement=Message("empty_cache() returns the cache to PyTorch's own pool, not to the system."),
    experiments=(pressure.EXPERIMENT,),
    first_screen=FirstScreen(2, "returned", Message("given back to the driver by empty_cache()")),
)
def _empty_cache(evidence: EvidenceCollector) -> Verdict:
    whole, _ = released(evidence)
    what = Message("still reserved after that")
    left = evidence.show("left", what, shown(evidence, pressure.RESERVED, pressure.ALL_EMPTIED))
    return evidence.verdict(
        Ruling.of(whole <= 0, in_part=left != 0),
        Message(
            "{returned} go back to the driver, and nvidia-smi shows it at once; with every second "
            "block alive {half} do."
        ),
        Message(
            "empty_cache calls cudaFree for each segment without a live block. The cache already "
            "is PyTorch's own pool: there is nothing to give back to it."
        ),
    )


@partial(
    Claim,
    id="pt-empty-cache-smi",
    place=(Section.TORCH, 3),
    statement=Message("After empty_cache() what nvidia-smi shows may not change."),
    experiments=(pressure.EXPERIMENT,),
)
def _empty_cache_smi(evidence: EvidenceCollector) -> Verdict:
    whole, half = released(evidence)
    what = Message("free beside live blocks, and kept")
    evidence.show("pinned", what, kept(evidence, pressure.INACTIVE_SPLIT, pressure.HALF_EMPTIED))
    return evidence.verdict(
        Ruling.of(whole <= 0, in_part=half <= 0),
        Message(
            "Only while live blocks hold the segments: {half} are given back then and {pinned} "
            "stay. When all is freed the figure falls by {returned}."
        ),
        Message("Only whole segments can be returned; context and modules stay in any case."),
    )
