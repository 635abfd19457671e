"""All claims in the order of the source document, and all of a panel's verdicts."""

from __future__ import annotations

from allocmark.claims import (
    comparison,
    context,
    diagnosis,
    flow,
    judge,
    tensorflow,
    tensorflow_pairs,
    torch_cache,
    torch_counters,
    torch_traits,
)
from allocmark.claims.claim import Claim, Judged
from allocmark.store.panel import Panel

CLAIMS: tuple[Claim, ...] = (
    *context.CLAIMS,
    *torch_cache.CLAIMS,
    *torch_counters.CLAIMS,
    *torch_traits.CLAIMS,
    *tensorflow.CLAIMS,
    *tensorflow_pairs.CLAIMS,
    *comparison.CLAIMS,
    *flow.CLAIMS,
    *diagnosis.CLAIMS,
)


def verdicts(panel: Panel) -> tuple[Judged, ...]:
    """Return the verdict on every claim from what a panel shows."""
    return judge.judge(CLAIMS, panel)
