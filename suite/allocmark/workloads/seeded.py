"""The seeded workloads by name: the same name, scale and seed give the same bytes everywhere."""

from __future__ import annotations

from collections.abc import Callable

from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.workloads import models, synthetic
from allocmark.workloads.building import Builder, Draws
from allocmark.workloads.event_trace import Trace

DEFAULT_SEED = 1
_SMALLEST_SCALE = 1 / 64
_LARGEST_SCALE = 256.0

_MAKERS: dict[str, Callable[[Draws, float], Builder]] = {
    "uniform": synthetic.uniform,
    "bimodal": synthetic.bimodal,
    "ascending": synthetic.ascending,
    "descending": synthetic.descending,
    "boundary": synthetic.boundary,
    "pinned": synthetic.pinned,
    "training": models.training,
    "kv-cache": models.kv_cache,
}

NAMES = tuple(_MAKERS)
"""The seeded workloads, in the order in which tables show them."""


def generate(name: str, scale: float = 1.0, seed: int = DEFAULT_SEED) -> Trace:
    """Make a workload; at scale 1 from 1 to 3 GiB are alive at its peak, at scale 50 up to 140 GiB.

    `scale` is from 1/64 to 256; what it scales is in each maker's docstring. Raises
    `UnknownNameError` for another name, `AllocmarkError` for another scale.
    """
    if name not in _MAKERS:
        raise UnknownNameError("workload", name, list(NAMES))
    if not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise AllocmarkError(f"scale {scale} is not from 1/64 to 256: choose one in that range")
    trace = _MAKERS[name](Draws(seed), scale)
    return trace.build(name, {"kind": "seeded", "seed": seed, "scale": scale})
