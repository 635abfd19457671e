"""What a rule sees of one panel, and the evidence that it collects on the way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd

from allocmark.claims.core.claim import Evidence, Ruling, Verdict
from allocmark.claims.core.over_workloads import Spread, spread
from allocmark.schema.metric import Metric
from allocmark.schema.notes import positive_number
from allocmark.store.frame_columns import DOCUMENT_COLUMNS
from allocmark.store.grid import records_of
from allocmark.store.number_text import format_value
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Derivation, figure, flags_of, inherited
from allocmark.system.message import Message, Text

AxisValue = str | float | bool
Where = AxisValue | Sequence[AxisValue]
Group = TypeVar("Group")

_OF_DOCUMENT = [name for name in DOCUMENT_COLUMNS if name != "subject"]


class MissingFigureError(Exception):
    """A figure that a rule needs is not in the panel; `reason` says so."""

    def __init__(self, reason: Text) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Row(float):
    """A row of the store that has a value, which the number is, in the row's unit."""

    __slots__ = ("index", "record")
    index: int
    record: dict[str, Any]

    def __new__(cls, index: int, record: dict[str, Any]) -> Row:
        """Return the value of a record as a number that knows its row."""
        row = super().__new__(cls, record["value"])
        row.index, row.record = index, record
        return row

    def __getitem__(self, column: str) -> Any:
        """Return an axis. Raises `MissingFigureError` where the figure does not have it."""
        if column not in self.record:
            what = f"{self.record['metric']}: {column}"
            raise MissingFigureError(Message("a figure without its axis: {what}", what=what))
        return self.record[column]


RowCache = dict[Metric, list[Row]]


class EvidenceCollector:
    """One panel while one claim is judged; claims share the rows in `known`."""

    def __init__(self, panel: Panel, known: RowCache | None = None) -> None:
        self.panel = panel
        self.collected: list[Evidence] = []
        self._known: RowCache = {} if known is None else known

    def fresh(self) -> EvidenceCollector:
        """Return a collector for the same panel that has collected nothing."""
        return EvidenceCollector(self.panel, self._known)

    def rows(self, metric: Metric, **where: Where) -> list[Row]:
        """Return the rows with a value that say what they must, in the store's order.

        `where` names columns of the store: ``subject`` and axes, with one value or several.
        """
        if metric not in self._known:
            found = self.panel.named(metric.experiment, metric.name)
            self._known[metric] = _rows(found[found["value"].notna()])
        return [row for row in self._known[metric] if _is_at(row.record, where)]

    def row(self, metric: Metric, **where: Where) -> Row:
        """Return the row with a value. Raises `MissingFigureError` unless there is exactly one."""
        rows = self.required_rows(metric, **where)
        if len(rows) > 1:
            what = f"{metric.experiment}: {metric.name}"
            raise MissingFigureError(Message("several figures for one place: {what}", what=what))
        return rows[0]

    def required_rows(self, metric: Metric, **where: Where) -> list[Row]:
        """Return the rows, at least one. Raises `MissingFigureError` where there are none."""
        rows = self.rows(metric, **where)
        if not rows:
            raise self.missing(metric, **where)
        return rows

    def missing(self, metric: Metric, **where: Where) -> MissingFigureError:
        """Return the error that says which figure there is not, with the store's own reason."""
        found = self.panel.named(metric.experiment, metric.name)
        empty = _records(found[found["reason"].notna()]).values()
        reasons = [str(record["reason"]) for record in empty if _is_at(record, where)]
        place = ", ".join(str(value) for values in where.values() for value in _several(values))
        what = f"{metric.experiment}: {metric.name}" + (f" ({place})" if place else "")
        if not reasons:
            return MissingFigureError(Message("no figure for {what}", what=what))
        return MissingFigureError(
            Message("no figure for {what}: {reason}", what=what, reason=reasons[0])
        )

    def show(self, name: str, what: Text, row: Row) -> float:
        """Take a row as evidence as it stands and return its value."""
        self.collected.append(Evidence(name, what, figure(row.index, row.record)))
        return float(row)

    def axis(self, name: str, what: Text, row: Row, axis: str, unit: str = "") -> float:
        """Take the value of a row's axis as evidence and return it."""
        value = float(row[axis])
        return self._derived(name, what, lambda rows: value, [row], unit, of_values=False)

    def count(self, name: str, what: Text, groups: Sequence[object], unit: str = "count") -> float:
        """Take as evidence how many rows, or groups of rows, there are, and return it."""
        return self._derived(name, what, len, groups, unit, of_values=False)

    def derive(
        self,
        name: str,
        what: Text,
        function: Callable[[Sequence[Group]], float],
        groups: Sequence[Group],
        unit: str = "ratio",
    ) -> float:
        """Take what a function makes of rows, or of groups of rows, as evidence, and return it.

        Raises `MissingFigureError` where nothing can be made of them, as of none.
        """
        return self._derived(name, what, function, groups, unit, of_values=True)

    def derive_over(
        self,
        name: str,
        what: Text,
        function: Callable[[Sequence[Sequence[Group]]], float],
        workloads: Sequence[Sequence[Group]],
        unit: str = "ratio",
    ) -> Spread:
        """Take what a function makes of the groups of several workloads as evidence.

        Return it with its interval over workloads, which stands beside it. Raises as `derive`.
        """
        sizes = [len(groups) for groups in workloads]

        def of_all(groups: Sequence[Group]) -> float:
            rest = iter(groups)
            return function([list(itertools.islice(rest, size)) for size in sizes])

        groups = [group for own in workloads for group in own]
        self._derived(name, what, of_all, groups, unit, of_values=True)
        found = spread(workloads, function)
        made = self.collected[-1]
        ends = (found.low, found.high) if math.isfinite(found.low) else (None, None)
        made = replace(
            made, cell=replace(made.cell, low=ends[0], high=ends[1]), over_workloads=True
        )
        cell = replace(made.cell, text=made.in_sentence)
        self.collected[-1] = replace(made, cell=cell)
        return found

    def _derived(
        self,
        name: str,
        what: Text,
        function: Callable[[Sequence[Group]], float],
        groups: Sequence[Group],
        unit: str,
        of_values: bool,
    ) -> float:
        rows = [row for group in groups for row in _of_group(group)]
        if not rows:
            raise MissingFigureError(Message("nothing to work out: {what}", what=what))
        derivation = Derivation(function, max(1, len(rows) // max(1, len(groups))), of_values)
        try:
            value = derivation([float(row) for row in rows])
        except (ZeroDivisionError, ValueError) as error:
            raise MissingFigureError(Message("nothing to work out: {what}", what=what)) from error
        if not math.isfinite(value):
            raise MissingFigureError(Message("not finite: {what}", what=what))
        cell = Cell(
            format_value(value, unit),
            value,
            unit,
            flags=inherited(flags_of(row.record) for row in rows) if of_values else (),
            rows=tuple(row.index for row in rows),
            function=derivation,
        )
        self.collected.append(Evidence(name, what, cell))
        return value

    def has(self, name: str) -> bool:
        """Whether evidence of that name was collected."""
        return any(each.name == name for each in self.collected)

    def verdict(self, ruling: Ruling, condition: Text, cause: Text) -> Verdict:
        """Return the verdict with the evidence collected so far."""
        return Verdict(ruling, tuple(self.collected), condition, cause)

    def note(self, row: Row, name: str) -> float | None:
        """Return a number above zero that the experiment noted beside a row's figures, or None."""
        index = self.panel.store.figures["document"][row.index]
        return positive_number(self.panel.store.sources[int(index)].document.conditions, name)


def _several(value: Where) -> Sequence[AxisValue]:
    return [value] if isinstance(value, str | float | int) else value


def _is_at(record: Mapping[str, Any], where: Mapping[str, Where]) -> bool:
    """Whether a record says what it must."""
    return all(record.get(column) in _several(value) for column, value in where.items())


def _records(found: pd.DataFrame) -> dict[int, dict[str, Any]]:
    return {} if found.empty else records_of(found.drop(columns=_OF_DOCUMENT))


def _rows(found: pd.DataFrame) -> list[Row]:
    return [Row(index, record) for index, record in _records(found).items()]


def _of_group(group: Any) -> Sequence[Row]:
    return [group] if isinstance(group, Row) else group
