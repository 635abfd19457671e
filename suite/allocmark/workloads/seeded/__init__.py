"""The seeded workloads by name: the same name, scale and seed give the same bytes everywhere.

To add one, put a function of `Draws` and a scale that is a `workload` into a file beside this one:
whatever lists workloads takes name, order and description from there.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from allocmark.system.errors import AllocmarkError, lookup
from allocmark.workloads.building import WORKLOADS, Draws, Workload
from allocmark.workloads.event_trace import Trace

DEFAULT_SEED = 1
_SMALLEST_SCALE = 1 / 64
_LARGEST_SCALE = 256.0


@cache
def registry() -> dict[str, Workload]:
    """Return the seeded workloads by name, in the order in which tables show them."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(WORKLOADS.items(), key=lambda item: item[1].order))


def generate(name: str, scale: float = 1.0, seed: int = DEFAULT_SEED) -> Trace:
    """Make a workload; at scale 1 from 1 to 3 GiB are alive at its peak, at scale 50 up to 140 GiB.

    `scale` is from 1/64 to 256; what it scales is in each maker's docstring. Raises
    `UnknownNameError` for another name, `AllocmarkError` for another scale.
    """
    workload = lookup("workload", name, registry())
    if not _SMALLEST_SCALE <= scale <= _LARGEST_SCALE:
        raise AllocmarkError(f"scale {scale} is not from 1/64 to 256: choose one in that range")
    trace = workload.make(Draws(seed), scale)
    return trace.build(name, {"kind": "seeded", "seed": seed, "scale": scale})
