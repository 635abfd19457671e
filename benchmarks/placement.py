"""Where an allocator puts blocks: best fit, merging and splitting, told by addresses."""

from __future__ import annotations

from allocmark.asv.cells import Cell, read_cell

from .common import CACHE_TIMEOUT_S, measured

ALLOCATORS = ["torch-native", "torch-expandable", "tf-growth", "tf-limit"]
ANSWERS = ["best_fit", "merges_at_free", "splits"]


class Placement:
    """Whether it takes the smallest hole that fits, joins freed neighbours, cuts what is larger."""

    version = "1"
    params = [ALLOCATORS, ANSWERS]
    param_names = ["allocator", "answer"]
    unit = "yes or no"

    def setup_cache(self) -> str:
        return measured("placement", ANSWERS)

    setup_cache.timeout = CACHE_TIMEOUT_S  # type: ignore[attr-defined]

    def track_answer(self, cells: str, allocator: str, answer: str) -> Cell:
        return read_cell(cells, allocator, answer)
