"""What the benchmark classes share: axes that are the same on every machine."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

BASE_ALLOCATORS = [
    "cuda-malloc",
    "cuda-malloc-async-0",
    "cuda-malloc-async-max",
    "torch-native",
    "torch-nocache",
    "torch-expandable",
    "torch-async",
]
TORCH_SETTINGS = [
    "torch-split64",
    "torch-split256",
    "torch-roundup4",
    "torch-gc80",
    "torch-expandable-split64",
    "torch-expandable-roundup4",
    "torch-expandable-gc80",
]
TENSORFLOW_ALLOCATORS = ["tf-growth", "tf-async"]
"""Two of its modes: the others differ in what they take at first, see `tensorflow_policy`."""
ALLOCATORS = [*BASE_ALLOCATORS, *TENSORFLOW_ALLOCATORS, *TORCH_SETTINGS]

CACHE_TIMEOUT_S = 1800
"""asv's own minute is too short for an experiment; each probe has a time limit of its own."""


def measured(experiment: str, metrics: Collection[str]) -> str:
    """Measure an experiment and return the folder of its cells."""
    from allocmark.asv.bridge import measure_cells

    return measure_cells(experiment, metrics, Path(__file__).resolve().parent.parent)
