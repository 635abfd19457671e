"""Every metric of the record, a module for each experiment: its metrics, values of its axes.

A module holds ``EXPERIMENT`` (the name in documents) and `Metric` constants, in the order of the
reference in docs/metrics.md, which is checked against them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from allocmark.schema.metric import Metric


@cache
def declared() -> Mapping[str, Mapping[str, Metric]]:
    """Return every metric by experiment and name."""
    found: dict[str, Mapping[str, Metric]] = {}
    for module in pkgutil.iter_modules(__path__):
        values = vars(importlib.import_module(f"{__name__}.{module.name}"))
        metrics = [value for value in values.values() if isinstance(value, Metric)]
        found[values["EXPERIMENT"]] = MappingProxyType({m.name: m for m in metrics})
    return MappingProxyType(found)


def find(experiment: str, name: str) -> Metric | None:
    """Return a metric, None where it is not declared: documents of others may hold any."""
    return declared().get(experiment, {}).get(name)
