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

from allocmark.schema.metric import Metric, declared_in


@cache
def declared() -> Mapping[str, Mapping[str, Metric]]:
    """Return every metric by experiment and name."""
    found: dict[str, Mapping[str, Metric]] = {}
    for module in pkgutil.iter_modules(__path__):
        values = vars(importlib.import_module(f"{__name__}.{module.name}"))
        own = {metric.name: metric for metric in declared_in(values)}
        found[values["EXPERIMENT"]] = MappingProxyType(own)
    return MappingProxyType(found)


def find(experiment: str, name: str) -> Metric | None:
    """Return a metric, None where it is not declared: documents of others may hold any."""
    return declared().get(experiment, {}).get(name)
