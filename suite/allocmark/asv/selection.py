"""Which of asv's benchmarks are asked for, and have a part in one of the stacks of a run.

asv runs every benchmark in every environment; one that names allocators of another stack only
would print and keep a table without a figure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from allocmark.allocators import registry
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.machine.frameworks import Share
from allocmark.measure.session import subjects_of
from allocmark.system.errors import AllocmarkError, UnknownNameError

JUST_DISCOVER = "just-discover"
"""asv's word for looking at the benchmarks and running none."""


def refuse_unknown(patterns: Iterable[str], benchmarks: Mapping[str, Any]) -> None:
    """Raise an `AllocmarkError` for a pattern that no benchmark answers to: asv passes over it.

    It is searched as asv does: in a benchmark's name with the values of one of its cells.
    """
    cells = [
        f"{name}({', '.join(values)})" if values else name
        for name, benchmark in benchmarks.items()
        for values in product(*benchmark["params"])
    ]
    for pattern in patterns:
        try:
            known = pattern == JUST_DISCOVER or any(re.search(pattern, cell) for cell in cells)
        except re.error as error:
            raise AllocmarkError(
                f"--bench {pattern} is no regular expression ({error}): give a benchmark's name"
            ) from None
        if not known:
            raise UnknownNameError("benchmark", pattern, sorted(benchmarks))


def skipped(share: Share, benchmarks: Mapping[str, Any], profile: Profile) -> list[str]:
    """Return the names of the benchmarks without a part in that stack.

    The module of a benchmark is named like its experiment. An experiment with subjects here keeps
    one of its benchmarks in any case, since asv's run is what lets it be measured.
    """
    allocators = list(registry().values())
    chosen = [catalog.experiment(name) for name in catalog.NAMES]
    here = {e.name: set(subjects_of(share, e, allocators, profile)) for e in chosen}
    known = {s for e in chosen for s in e.subjects(allocators, PROFILES["full"])}
    found, measuring = [], set()

    def foreign(name: str) -> bool:
        named = _named(benchmarks[name]) & known
        return bool(named) and not named & here[_experiment(name)]

    # The others come first, so that no foreign one is kept where one of them measures.
    for name in sorted((n for n in benchmarks if _experiment(n) in here), key=foreign):
        key = benchmarks[name]["setup_cache_key"]
        if not here[_experiment(name)] or (foreign(name) and key in measuring):
            found.append(name)
        measuring.add(key)
    return found


def _experiment(benchmark: str) -> str:
    return benchmark.partition(".")[0]


def _named(benchmark: Mapping[str, Any]) -> set[Any]:
    """Return the values of a benchmark's axes, which asv keeps as source text."""
    return {ast.literal_eval(value) for axis in benchmark["params"] for value in axis}
