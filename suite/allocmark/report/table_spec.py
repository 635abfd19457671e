"""Tables described as data: which figures of an experiment, laid out how, under which words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from allocmark.claims.core.claim import Judgement
from allocmark.schema.metric import Metric
from allocmark.store.cell_conditions import conditions
from allocmark.store.grid import METRIC, Key, grid
from allocmark.store.panel import Panel
from allocmark.store.table import Style, Table, span
from allocmark.system.message import Text

Where = Mapping[str, str | float | Sequence[str]]
"""What rows must say: a column's value, or one of several."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: the figures of some metrics of one experiment, `down` and `across`.

    `where` says in which places, `name` is the table's own among the experiment's, by default the
    first metric's. `span` is the heading of a last column that has by how much the figures of a row
    differ. `absent` is why there is no figure for a cell, where that is known better than by the
    panel. `mark_meters` flags a figure that another meter read than most. `leading`: it answers its
    section's question; the others stand behind it, folded.
    """

    metrics: Sequence[Metric]
    title: Text
    down: tuple[Key, ...]
    across: Key
    about: Text = ""
    name: str = ""
    where: Where = field(default_factory=dict)
    style: Style = "median"
    span: Text = ""
    absent: Text = ""
    mark_meters: bool = False
    leading: bool = False

    def made(self, panel: Panel, judged: Sequence[Judgement] = ()) -> Table | None:
        """Return the table, None where there is neither a figure nor a reason for having none."""
        experiment, names = self.metrics[0].experiment, tuple(m.name for m in self.metrics)
        rows = select(panel, self.metrics, self.where)
        if rows.empty:
            return None
        laid_out = grid(
            rows,
            self.down,
            replace(METRIC, order=names) if self.across is METRIC else self.across,
            style=self.style,
            gap=lambda place: self.absent or panel.gap(experiment, place),
            mark_meters=self.mark_meters,
        )
        table = Table(
            id=f"{experiment}-{self.name or names[0]}",
            title=self.title,
            columns=laid_out.columns,
            rows=laid_out.rows,
            about=self.about,
            conditions=conditions(panel.store, rows),
            leading=self.leading,
        )
        return _with_span(table, self.span) if self.span else table


def select(panel: Panel, metrics: Sequence[Metric], where: Where) -> pd.DataFrame:
    """Return the rows of metrics of one experiment that say what they must.

    There are none where an axis is unknown.
    """
    rows = panel.figures(metrics[0].experiment)
    wanted_in = {"metric": [metric.name for metric in metrics], **where}
    for column, wanted in wanted_in.items():
        allowed = [wanted] if isinstance(wanted, str | float) else list(wanted)
        rows = rows[rows[column].isin(allowed)] if column in rows else rows.iloc[:0]
    return rows


def made(panel: Panel, specs: Iterable[TableSpec]) -> list[Table]:
    """Return the tables of which there is any figure, or a reason for having none."""
    return [table for spec in specs if (table := spec.made(panel)) is not None]


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
