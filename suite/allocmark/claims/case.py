"""A case: what a rule sees of one panel, and the evidence that it collects on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from allocmark.claims.claim import Evidence, Ruling, Verdict
from allocmark.claims.functions import FUNCTIONS, OF_PLACES
from allocmark.claims.text import Text
from allocmark.store.frame import DOCUMENT_COLUMNS
from allocmark.store.grid import records_of
from allocmark.store.number_text import format_value
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, figure, flags_of, inherited

Place = str | float | bool
"""A value of an axis."""


_OF_DOCUMENT = [name for name in DOCUMENT_COLUMNS if name != "subject"]


def plainly(text: str) -> str:
    """Return foreign text as it has to stand in a `Text`, which takes braces for places."""
    return text.replace("{", "{{").replace("}", "}}")


class MissingFigureError(Exception):
    """A figure that a rule needs is not in the panel; `reason` says so in both languages."""

    def __init__(self, reason: Text) -> None:
        super().__init__(reason.en)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the store that has a value."""

    index: int
    record: dict[str, Any]

    @property
    def value(self) -> float:
        """The figure's value, in the row's unit."""
        return float(self.record["value"])

    def __getitem__(self, column: str) -> Any:
        """Return an axis. Raises `MissingFigureError` where the figure does not have it."""
        if column not in self.record:
            what = f"{self.record['metric']}: {column}"
            raise MissingFigureError(
                Text(
                    plainly(f"a figure without its axis: {what}"), plainly(f"数值缺少坐标：{what}")
                )
            )
        return self.record[column]


_MANY = 1000


def _rows(found: pd.DataFrame) -> list[Row]:
    told = {} if found.empty else records_of(found.drop(columns=_OF_DOCUMENT))
    return [Row(index, record) for index, record in told.items()]


Known = dict[tuple[str, str, str], list[Row]]


class Case:
    """One panel while one claim is judged; `known` are the answers that claims share."""

    def __init__(self, panel: Panel, known: Known | None = None) -> None:
        self.panel = panel
        self.evidence: list[Evidence] = []
        self._known: Known = {} if known is None else known

    def apart(self) -> Case:
        """Return a case of the same panel with evidence of its own."""
        return Case(self.panel, self._known)

    def rows(self, probe: str, metric: str, **where: Place | Sequence[Place]) -> list[Row]:
        """Return the rows with a value that say what they must, in the store's order.

        `where` names columns of the store: ``subject`` and axes, with one value or several.
        """
        asked = (probe, metric, repr(sorted(where.items())))
        if asked not in self._known:
            self._known[asked] = self._answer(probe, metric, where)
        return list(self._known[asked])

    def _answer(
        self, probe: str, metric: str, where: dict[str, Place | Sequence[Place]]
    ) -> list[Row]:
        if len(self.panel.named(probe, metric)) > _MANY:
            return _rows(self._found(probe, metric, where, only_values=True))
        # A few rows are turned into records once: most metrics are asked for many times.
        every = (probe, metric, "")
        if every not in self._known:
            self._known[every] = _rows(self._found(probe, metric, {}, only_values=True))
        wanted = {
            column: value if isinstance(value, list | tuple) else (value,)
            for column, value in where.items()
        }
        return [
            row
            for row in self._known[every]
            if all(row.record.get(column) in values for column, values in wanted.items())
        ]

    def one(self, probe: str, metric: str, **where: Place | Sequence[Place]) -> Row:
        """Return the one row with a value. Raises `MissingFigureError` where there is not one."""
        rows = self.rows(probe, metric, **where)
        if len(rows) > 1:
            what = plainly(f"{probe}: {metric}")
            raise MissingFigureError(
                Text(f"several figures for one place: {what}", f"同一处有多个数值：{what}")
            )
        if not rows:
            raise self.missing(probe, metric, **where)
        return rows[0]

    def some(self, probe: str, metric: str, **where: Place | Sequence[Place]) -> list[Row]:
        """Return the rows, at least one. Raises `MissingFigureError` where there are none."""
        rows = self.rows(probe, metric, **where)
        if not rows:
            raise self.missing(probe, metric, **where)
        return rows

    def missing(
        self, probe: str, metric: str, **where: Place | Sequence[Place]
    ) -> MissingFigureError:
        """Return the error that says which figure there is not, with the store's own reason."""
        found = self._found(probe, metric, where)
        reasons = [str(reason) for reason in found["reason"].dropna().unique()]
        told = (v if isinstance(v, list | tuple) else [v] for v in where.values())
        place = ", ".join(str(value) for values in told for value in values)
        what = plainly(f"{probe}: {metric}" + (f" ({place})" if place else ""))
        why = plainly(reasons[0]) if reasons else None
        return MissingFigureError(
            Text(
                f"no figure for {what}" + (f": {why}" if why else ""),
                f"没有 {what} 的数值" + (f"：{why}" if why else ""),
            )
        )

    def show(self, name: str, what: Text, row: Row) -> float:
        """Take a row as evidence as it stands and return its value."""
        self.evidence.append(Evidence(name, what, figure(row.index, row.record)))
        return row.value

    def work_out(
        self,
        name: str,
        what: Text,
        function: str,
        rows: Sequence[Row],
        unit: str = "ratio",
        given: tuple[float, ...] = (),
    ) -> float:
        """Take what a function of `FUNCTIONS` makes of rows as evidence, and return it.

        Raises `MissingFigureError` where there are no rows, or nothing can be made of them.
        """
        try:
            value = float(FUNCTIONS[function]([row.value for row in rows], *given))
        except (ZeroDivisionError, ValueError) as error:
            raise MissingFigureError(
                Text(f"nothing to work out: {what.en}", f"无从计算：{what.zh}")
            ) from error
        if not math.isfinite(value):
            raise MissingFigureError(Text(f"not finite: {what.en}", f"不是有限值：{what.zh}"))
        cell = Cell(
            format_value(value, unit),
            value,
            unit,
            flags=() if function in OF_PLACES else inherited(flags_of(r.record) for r in rows),
            rows=tuple(row.index for row in rows),
            function=function,
            given=given,
        )
        self.evidence.append(Evidence(name, what, cell))
        return value

    def verdict(
        self, ruling: Ruling, condition: Text | None = None, cause: Text | None = None
    ) -> Verdict:
        """Return the verdict with the evidence collected so far."""
        return Verdict(ruling, tuple(self.evidence), condition, cause)

    def noted(self, row: Row, name: str) -> float | None:
        """Return a number above zero that the probe noted beside a row's figures, or None."""
        index = self.panel.store.figures["document"][row.index]
        notes = self.panel.store.sources[int(index)].document.conditions.get("notes")
        value = notes.get(name) if isinstance(notes, Mapping) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if 0 < value < math.inf else None

    def _found(
        self,
        probe: str,
        metric: str,
        where: dict[str, Place | Sequence[Place]],
        only_values: bool = False,
    ) -> pd.DataFrame:
        found = self.panel.named(probe, metric)
        if found.empty or any(column not in found for column in where):
            return found.iloc[:0]
        # One mask, so that the many columns are taken once.
        wanted = np.full(len(found), True)
        for column, value in where.items():
            several = list(value) if isinstance(value, list | tuple) else [value]
            wanted &= found[column].isin(several).to_numpy()
        if only_values:
            wanted &= found["value"].notna().to_numpy()
        return found[wanted]
