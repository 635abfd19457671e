"""Tables described as data: which figures of an experiment, laid out how, under which words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from allocmark.schema.metric import Metric
from allocmark.store.cell_conditions import conditions
from allocmark.store.grid import METRIC, Key, grid
from allocmark.store.panel import Panel
from allocmark.store.table import Style, Table, span
from allocmark.system.message import Text

Where = Mapping[str, str | float | Sequence[str]]
"""What rows must say: a column's value, or one of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """One table: the figures of `metrics` (of all, if none) in some places, `down` and `across`.

    `name` is its own within the experiment's. `span` is the heading of a last column that has by
    how much the figures of a row differ. `absent` is why there is no figure for a cell, where that
    is known better than by the panel. `mark_meters` flags a figure that another meter read than
    most. `leading`: it answers its section's question; the others stand behind it, folded.
    """

    name: str
    title: Text
    metrics: Sequence[Metric] = ()
    down: tuple[Key, ...]
    across: Key
    about: Text = ""
    where: Where = field(default_factory=dict)
    style: Style = "median"
    span: Text = ""
    absent: Text = ""
    mark_meters: bool = False
    leading: bool = False


def select(panel: Panel, experiment: str, where: Where) -> pd.DataFrame:
    """Return the rows of an experiment that say what they must; none where an axis is unknown."""
    rows = panel.figures(experiment)
    for column, wanted in where.items():
        allowed = [wanted] if isinstance(wanted, str | float) else list(wanted)
        rows = rows[rows[column].isin(allowed)] if column in rows else rows.iloc[:0]
    return rows


def made(panel: Panel, experiment: str, specs: Iterable[TableSpec]) -> list[Table]:
    """Return the tables of which there is any figure, or a reason for having none."""
    tables = (_made(panel, experiment, spec) for spec in specs)
    return [table for table in tables if table is not None]


def _made(panel: Panel, experiment: str, spec: TableSpec) -> Table | None:
    names = tuple(metric.name for metric in spec.metrics)
    rows = select(panel, experiment, {"metric": names, **spec.where} if names else spec.where)
    if rows.empty:
        return None
    across = replace(METRIC, order=names) if spec.across is METRIC else spec.across
    laid_out = grid(
        rows,
        spec.down,
        across,
        style=spec.style,
        gap=lambda place: spec.absent or panel.gap(experiment, place),
        mark_meters=spec.mark_meters,
    )
    table = Table(
        id=f"{experiment}-{spec.name}",
        title=spec.title,
        columns=laid_out.columns,
        rows=laid_out.rows,
        about=spec.about,
        conditions=conditions(panel.store, rows),
        emulated=panel.emulated,
        leading=spec.leading,
    )
    return _with_span(table, spec.span) if spec.span else table


def _with_span(table: Table, heading: Text) -> Table:
    figures = [
        i
        for i in range(len(table.columns))
        if any(row[i].value is not None or row[i].reason is not None for row in table.rows)
    ]
    if not figures[1:]:
        return table
    rows = tuple((*row, span([row[i] for i in figures])) for row in table.rows)
    return replace(table, columns=(*table.columns, heading), rows=rows)
