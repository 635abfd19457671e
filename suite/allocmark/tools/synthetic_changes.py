"""Changes with a known answer, for the simulations: steps in figures, and runs drawn from one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

import numpy as np

from allocmark.compare.core_speed import stepped
from allocmark.compare.noise import LEAST_TOGETHER
from allocmark.compare.pairing import FigurePair
from allocmark.compare.run_set import RunSet
from allocmark.compare.thresholds import Rule, Thresholds
from allocmark.schema.figure import Figure
from allocmark.schema.figure_id import figure_id_of


def plant(pair: FigurePair, factor: float) -> FigurePair:
    """Return the pair with a step in every run of B."""
    return replace(pair, b={run: stepped(figure, factor) for run, figure in pair.b.items()})


def counted_up(pair: FigurePair) -> FigurePair:
    """Return the pair with one more in B, for figures that are counted."""
    more = {run: replace(f, value=f.value and f.value + 1) for run, f in pair.b.items()}
    return replace(pair, b=more)


def drawn(runs: Sequence[RunSet], count: int, thresholds: Thresholds, seed: int) -> list[RunSet]:
    """Return `count` runs drawn from those given: nothing is changed, all of it is noise.

    Each figure is that of one of the runs, moved to its mean and from there by what some process of
    its group moved by, and by what some figure of its group moved by itself. From a single run
    nothing of that is known, and the thresholds' deviations are taken instead: how real runs
    differ, only real runs say.
    """
    generator = np.random.default_rng(seed)
    cells = _cells(runs, thresholds)
    noise = _noise(cells)
    made = []
    for number in range(1, count + 1):
        common: dict[tuple[str, str, str], float] = {}
        figures: defaultdict[tuple[str, str], list[Figure]] = defaultdict(list)
        for cell in cells:
            figures[cell.probe, cell.subject].append(_drawn(cell, noise, common, generator))
        sources = []
        for source in runs[0].sources:
            own = figures[source.document.probe, source.document.subject]
            document = replace(source.document, run=f"drawn-{number}", figures=own)
            sources.append(replace(source, document=document))
        made.append(RunSet(f"drawn {number}", tuple(sources)))
    return made


@dataclass(frozen=True, slots=True)
class _Cell:
    """One figure in all runs; `logs` of what is compared, empty where there is nothing to move."""

    probe: str
    subject: str
    rule: Rule
    figures: tuple[Figure, ...]
    logs: tuple[float, ...]

    @property
    def process(self) -> tuple[str, str, str]:
        return self.probe, self.subject, self.rule.group


_Moves = dict[str, tuple[list[float], list[float]]]
"""By group: what processes moved by, and what figures did beside that."""


def _cells(runs: Sequence[RunSet], thresholds: Thresholds) -> list[_Cell]:
    found: dict[tuple[str, str, str, str], list[Figure]] = {}
    for run in runs:
        for source in run.sources:
            document = source.document
            for figure in document.figures:
                place = figure_id_of(document.probe, document.subject, figure.metric, figure.axes)
                meter = "" if figure.kind == "time" else figure.meter
                key = (document.probe, document.subject, place, meter)
                found.setdefault(key, []).append(figure)
    cells = []
    for (probe, subject, place, _), figures in found.items():
        rule = thresholds.of(place)
        values = [_read(figure, rule) for figure in figures]
        moves = len(values) == len(runs) and min(values) > 0 and figures[0].kind != "exact"
        logs = tuple(map(math.log, values)) if moves else ()
        cells.append(_Cell(probe, subject, rule, tuple(figures), logs))
    return cells


def _read(figure: Figure, rule: Rule) -> float:
    if rule.reading == "fastest" and figure.samples:
        return min(figure.samples)
    return figure.value or 0.0


def _noise(cells: Sequence[_Cell]) -> _Moves:
    processes: dict[tuple[str, str, str], list[list[float]]] = {}
    for cell in cells:
        if len(cell.logs) > 1:
            middle = fmean(cell.logs)
            # As far from the mean of all as from that of others: n runs are nearer to their own.
            wide = math.sqrt(len(cell.logs) / (len(cell.logs) - 1))
            left = [wide * (log - middle) for log in cell.logs]
            processes.setdefault(cell.process, []).append(left)
    found: _Moves = {}
    for (_, _, group), rows in processes.items():
        common, alone = found.setdefault(group, ([], []))
        for column in zip(*rows, strict=True):
            moved = median(column) if len(column) >= LEAST_TOGETHER else 0.0
            common.append(moved)
            alone += [left - moved for left in column]
    return found


def _drawn(
    cell: _Cell,
    noise: _Moves,
    common: dict[tuple[str, str, str], float],
    generator: np.random.Generator,
) -> Figure:
    index = int(generator.integers(len(cell.figures)))
    figure, rule = cell.figures[index], cell.rule
    if not cell.logs:
        return figure
    processes, alone = noise.get(rule.group, ([], []))
    shared = common.setdefault(cell.process, _move(processes, rule.process, generator))
    own = _move(alone, rule.figure, generator)
    if not processes and len(set(figure.samples)) < 2:  # noqa: PLR2004 - one reading, or all alike
        own = 0.0
    return stepped(figure, math.exp(fmean(cell.logs) - cell.logs[index] + shared + own))


def _move(known: Sequence[float], deviation: float, generator: np.random.Generator) -> float:
    """Return one of the known moves, either way, or one of this deviation where none is known."""
    if not known:
        return float(generator.normal(0, deviation))
    return float(known[int(generator.integers(len(known)))] * generator.choice([-1.0, 1.0]))
