"""Which of asv's benchmarks are requested, and have a part in one of the stacks of a run.

asv would keep and print a benchmark in every environment, also one that names allocators of another
stack only: a table without a figure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
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
    """Return the names of the benchmarks (as asv keeps them) that have no cell in one stack."""
    every = [catalog.experiment(name) for name in experiments_of(benchmarks)]
    subjects = {each.name: set(plan.subjects_of(share, each)) for each in every}
    known = {s for e in catalog.in_suite() for s in e.subjects(plan.allocators, PROFILES["full"])}
    return without_subjects(benchmarks, subjects, known)


def experiments_of(benchmarks: Mapping[str, Any]) -> set[str]:
    """Return the experiments that benchmarks (as asv keeps them) read."""
    return {benchmark["setup_cache_key"] for benchmark in benchmarks.values()}


def without_subjects(
    benchmarks: Mapping[str, Any], subjects: Mapping[str, Collection[str]], known: Collection[str]
) -> set[str]:
    """Return the names of the benchmarks without a cell of these subjects, by experiment.

    Benchmarks of one module share their subjects; `known` are all that there are.
    """
    measured: dict[str, set[str]] = {}
    for name, benchmark in benchmarks.items():
        here = subjects.get(benchmark["setup_cache_key"], ())
        measured.setdefault(_module(name), set()).update(here)

    def has_none(name: str) -> bool:
        here, named = measured[_module(name)], _values(benchmarks[name]) & {*known}
        return not here or (bool(named) and not named & here)

    return {name for name in benchmarks if has_none(name)}


def _module(benchmark: str) -> str:
    return benchmark.partition(".")[0]


def _values(benchmark: Mapping[str, Any]) -> set[Any]:
    """Return the values of a benchmark's axes, which asv keeps as source text."""
    return {ast.literal_eval(value) for axis in benchmark["params"] for value in axis}
