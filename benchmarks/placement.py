"""Where an allocator puts blocks: best fit, merging and splitting, seen by addresses."""

from __future__ import annotations

from allocmark.allocators import names
from allocmark.allocators.base import Capability, Tier
from allocmark.asv.cells import Cell, Question
from allocmark.schema.metrics import placement as metrics

ALLOCATORS = names(tier=Tier.BASE, having=Capability.CACHE, driver_pool=False)
ANSWERS = {m.name: m for m in (metrics.BEST_FIT, metrics.MERGES_AT_FREE, metrics.SPLITS)}


class Placement(Question):
    """Whether it takes the smallest hole that fits, joins freed neighbours, cuts what is larger."""

    experiment = metrics.EXPERIMENT
    params = [ALLOCATORS, list(ANSWERS)]
    param_names = ["allocator", "answer"]
    unit = "yes or no"

    def track_answer(self, allocator: str, answer: str) -> Cell:
        return self.cell(allocator, ANSWERS[answer])
