"""What the processes of one document reported, joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from allocmark.experiments.core.experiment import Experiment
from allocmark.experiments.core.recorder import Cell
from allocmark.experiments.core.request import ChildOutcome
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.intervals import sampled_figure

UNFINISHED = "the probe ended before it came to this"


def combined(
    experiment: Experiment, outcomes: Sequence[ChildOutcome], failures: list[Failure]
) -> list[Figure]:
    """Join the outcomes; an experiment that cannot must not lose what its children read."""
    try:
        return experiment.combine(outcomes)
    except Exception as error:
        failures.append(Failure("combine", f"{type(error).__name__}: {error}"))
        return [figure for outcome in outcomes for figure in outcome.figures]


def notes(outcomes: Sequence[ChildOutcome]) -> dict[str, Axis | list[Axis]]:
    """Return the named values of all children: one where they agree, all where they differ."""
    found: dict[str, list[Axis]] = {}
    for outcome in outcomes:
        for name, value in outcome.notes.items():
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def spent(outcomes: Sequence[ChildOutcome]) -> dict[str, float]:
    """Return the seconds of each stage over all children."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.spent)
    return {name: round(seconds, 3) for name, seconds in total.items()}


def cell_of(metric: str, axes: Mapping[str, Axis]) -> tuple[str, tuple[tuple[str, Axis], ...]]:
    """Return what tells a figure from all others of its document."""
    return metric, tuple(sorted(axes.items()))


def joined(figures: Iterable[Figure]) -> list[Figure]:
    """Join the figures of one cell from like processes into the figure of their readings."""
    groups: dict[Any, list[Figure]] = {}
    for figure in figures:
        groups.setdefault(cell_of(figure.metric, figure.axes), []).append(figure)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: Sequence[Figure]) -> Figure:
    found = [figure for figure in group if figure.value is not None]
    samples = [figure.value for figure in found if figure.value is not None]
    first = found[0] if found else group[0]
    repeats = first.kind == "exact" and len(set(samples)) == 1
    if not found or repeats or (len(group) == 1 and first.samples):
        return first
    return sampled_figure(first.metric, first.unit, first.kind, first.meter, first.axes, samples)


def empty_cells(cells: Iterable[Cell], why: str) -> list[Figure]:
    """Return a figure with that reason for each metric of some cells."""
    return [metric.missing(why, axes) for axes, metrics in cells for metric in metrics]


def fill(outcomes: Sequence[ChildOutcome], expected: Iterable[Cell]) -> list[Figure]:
    """Return the figures of all children and, for each expected cell they lack, the reason."""
    found = [figure for outcome in outcomes for figure in outcome.figures]
    have = {cell_of(figure.metric, figure.axes) for figure in found}
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    why = failures[-1].reason if failures else UNFINISHED
    empty = empty_cells(expected, why)
    return found + [each for each in empty if cell_of(each.metric, each.axes) not in have]
