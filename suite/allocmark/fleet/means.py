"""Means of many times by machine: of a group over all allocators, and of each allocator in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from allocmark.compare.means import HOST
from allocmark.compare.noise import PRIOR
from allocmark.compare.thresholds import Rule
from allocmark.fleet import spread
from allocmark.fleet.judging import Judged, candidates_of, column, decide, ignored, runs_of
from allocmark.fleet.model import Scope
from allocmark.fleet.reading import Floats, KindRuns


@dataclass(frozen=True)
class Means:
    """The means of a scope; `values` are logarithms by mean and machine, from the fleet's middle.

    `cells` has a cell of each, whose command measures it again.
    """

    names: list[str]
    rules: list[Rule]
    cells: list[int]
    values: Floats
    judged: Judged


def means(kind: KindRuns, scope: Scope) -> Means:
    """Return the means of one scope with what is odd among them."""
    timed = np.flatnonzero(kind.time & ~kind.exact & ~ignored(kind))
    chosen = timed[_positive(kind.values[:, timed])]
    pools: dict[tuple[str, str], list[int]] = {}
    subjects = ["/".join(kind.cells[cell].split("/", 2)[:2]) for cell in chosen]
    for index, (cell, subject) in enumerate(zip(chosen.tolist(), subjects, strict=True)):
        name = subject if scope == "allocator" else ""
        pools.setdefault((kind.rules[cell].group, name), []).append(index)
    if not pools:
        return Means([], [], [], np.empty((0, len(kind.machines))), Judged())
    logs = np.log(kind.values[:, chosen].T)
    logs -= spread.row_medians(logs)[:, None]
    members = list(pools.values())
    rules = [kind.rules[int(chosen[rows[0]])] for rows in members]
    processes = np.asarray([len({subjects[row] for row in rows}) for rows in members])
    size = np.asarray([len(rows) for rows in members])
    by_run = np.stack([_mean(logs[rows]) for rows in members])
    values, away = _away(kind, by_run, rules, processes, size)
    tests = (~np.isnan(away.p)).sum(axis=0)
    candidates = candidates_of(away, values, column(rules, "least"), np.arange(len(members)))
    names = [
        f"mean of {len(rows)} {group}" + (f" of {subject}" if subject else "")
        for (group, subject), rows in pools.items()
    ]
    cells = [int(chosen[rows[0]]) for rows in members]
    return Means(names, rules, cells, values, decide(scope, candidates, tests, rules.__getitem__))


def _away(
    kind: KindRuns,
    by_run: Floats,
    rules: list[Rule],
    processes: NDArray[np.int64],
    size: NDArray[np.int64],
) -> tuple[Floats, spread.Away]:
    """Return the means by machine, and how far each is from the others."""
    values, squares = spread.machine_values(by_run, kind.machine, len(kind.machines))
    dof = spread.degrees(by_run, kind.machine, len(kind.machines))
    # As of the means of a comparison: processes have a part in common, and figures average out.
    process = column(rules, "process") ** 2
    own = process + column(rules, "figure") ** 2 * processes / size
    expected = own * (HOST + (1 - HOST) / processes)
    variance = (PRIOR * expected + squares) / (PRIOR + dof)
    return values, spread.away(values, variance, HOST * process, runs_of(kind))


def _positive(values: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.nanmin(np.where(np.isnan(values), np.inf, values), axis=0) > 0)


def _mean(rows: Floats) -> Floats:
    """Return the mean by run over the figures that it has, NaN where it lacks half of them."""
    known = (~np.isnan(rows)).sum(axis=0)
    sums = np.nansum(rows, axis=0)
    return np.where(2 * known > len(rows), sums / np.maximum(known, 1), np.nan)
