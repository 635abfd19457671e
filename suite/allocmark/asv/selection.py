"""Which of asv's benchmarks are requested, and have a part in one of the stacks of a run.

asv would keep and print a benchmark in every environment, also one that names allocators of another
stack only: a table without a figure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine.frameworks import Share
from allocmark.measure.run import Plan
from allocmark.system.errors import AllocmarkError, UnknownNameError

JUST_DISCOVER = "just-discover"
"""asv's word for looking at the benchmarks and running none."""


def refuse_unknown(patterns: Iterable[str], params: Mapping[str, Iterable[Iterable[str]]]) -> None:
    """Raise an `AllocmarkError` for a pattern that matches no benchmark: asv passes over it.

    It is searched as asv does: in a benchmark's name with the values of one of its cells. `params`
    are these values as source text, by benchmark.
    """
    cells = [
        f"{name}({', '.join(values)})" if values else name
        for name, axes in params.items()
        for values in product(*axes)
    ]
    for pattern in patterns:
        try:
            known = pattern == JUST_DISCOVER or any(re.search(pattern, cell) for cell in cells)
        except re.error as error:
            raise AllocmarkError(
                f"--bench {pattern} is no regular expression ({error}): give a benchmark's name"
            ) from None
        if not known:
            raise UnknownNameError("benchmark", pattern, sorted(params))


def without_part(plan: Plan, share: Share, benchmarks: Mapping[str, Any]) -> set[str]:
    """Return the names of the benchmarks (as asv keeps them) that have no cell in one stack.

    Benchmarks of one module share their subjects.
    """
    every = catalog.in_suite()
    known = {s for e in every for s in e.subjects(plan.allocators, PROFILES["full"])}
    measured: dict[str, set[str]] = {}
    for name, benchmark in benchmarks.items():
        experiment = catalog.experiment(benchmark["setup_cache_key"])
        measured.setdefault(_module(name), set()).update(plan.subjects_of(share, experiment))

    def has_none(name: str) -> bool:
        here, named = measured[_module(name)], _values(benchmarks[name]) & known
        return not here or (bool(named) and not named & here)

    return {name for name in benchmarks if has_none(name)}


def _module(benchmark: str) -> str:
    return benchmark.partition(".")[0]


def _values(benchmark: Mapping[str, Any]) -> set[Any]:
    """Return the values of a benchmark's axes, which asv keeps as source text."""
    return {ast.literal_eval(value) for axis in benchmark["params"] for value in axis}
