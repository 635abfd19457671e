"""The columns of the store's frame while they grow, row by row and document by document."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

DOCUMENT_COLUMNS = ("machine", "stack", "profile", "run", "probe", "subject", "emulated")
TEXT_COLUMNS = ("metric", "unit", "kind", "meter", "reason", "flags")
NUMBER_COLUMNS = ("value", "low", "high", "n", "minimum", "maximum")
SCALED = "scaled_to_core_speed"
FIXED_COLUMNS = ("document", *DOCUMENT_COLUMNS, *TEXT_COLUMNS, *NUMBER_COLUMNS, SCALED)
_FIXED = frozenset(FIXED_COLUMNS)


@dataclass
class Text:
    """A column of text as codes, so that a million repeats cost four bytes each."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    names: dict[str, int] = field(default_factory=dict)

    def extend(self, texts: Iterable[str | None]) -> None:
        names = self.names
        self.codes.extend(
            [-1 if text is None else names.setdefault(text, len(names)) for text in texts]
        )

    def append(self, other: Text) -> None:
        """Take what another column holds, after one's own."""
        names = self.names
        codes = [names.setdefault(name, len(names)) for name in other.names]
        table = np.asarray([*codes, -1], dtype=np.int32)  # What has code -1 finds the last one.
        self.codes.frombytes(table[np.asarray(other.codes, dtype=np.int32)].tobytes())

    def column(self) -> pd.Categorical:
        return pd.Categorical.from_codes(
            np.asarray(self.codes, dtype=np.int32), pd.Index(list(self.names), dtype=object)
        )


@dataclass
class Sparse:
    """A column that most rows lack: positions and values."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    values: list[Any] = field(default_factory=list)

    def append(self, other: Sparse, start: int) -> None:
        """Take what another column holds, whose first row is number `start` of one's own."""
        positions = np.asarray(other.rows, dtype=np.int64) + start
        self.rows.frombytes(positions.tobytes())
        self.values += other.values

    def column(self, length: int) -> Any:
        positions = np.asarray(self.rows, dtype=np.int64)
        kinds = {type(value) for value in self.values}
        if kinds <= {int, float}:
            numbers = np.full(length, np.nan)
            numbers[positions] = self.values
            return numbers
        if kinds == {str}:
            short = pd.Categorical(np.asarray(self.values, dtype=object))
            codes = np.full(length, -1, dtype=np.int32)
            codes[positions] = short.codes
            return pd.Categorical.from_codes(codes, dtype=short.dtype)
        column = np.full(length, np.nan, dtype=object)
        column[positions] = self.values
        return column


class Rows:
    """The frame while it grows: rows of one document, or of many."""

    def __init__(self) -> None:
        self.length = 0
        self.text = {name: Text() for name in TEXT_COLUMNS}
        self.numbers: dict[str, array[float]] = {name: array("d") for name in NUMBER_COLUMNS}
        self.scaled = array("b")
        self.axes: dict[str, Sparse] = {}

    def extend(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take rows column by column: thousands of files make millions."""
        for name, text in self.text.items():
            text.extend(row[name] for row in rows)
        for name, numbers in self.numbers.items():
            numbers.extend([row[name] for row in rows])
        self.scaled.extend([row[SCALED] for row in rows])
        for position, row in enumerate(rows, self.length):
            for axis_name, value in row["axes"].items():
                axis = self._axis(f"axis_{axis_name}" if axis_name in _FIXED else axis_name)
                axis.rows.append(position)
                axis.values.append(value)
        self.length += len(rows)

    def append(self, other: Rows) -> None:
        """Take the rows of another one, after one's own."""
        for name, text in self.text.items():
            text.append(other.text[name])
        for name, numbers in self.numbers.items():
            numbers.extend(other.numbers[name])
        self.scaled.extend(other.scaled)
        for name, axis in other.axes.items():
            self._axis(name).append(axis, self.length)
        self.length += other.length

    def _axis(self, name: str) -> Sparse:
        if (axis := self.axes.get(name)) is None:
            axis = self.axes[name] = Sparse()
        return axis

    def frame(
        self, of_documents: Mapping[str, Sequence[Any]], lengths: Sequence[int]
    ) -> pd.DataFrame:
        """Return the frame of these documents, by column a value for each, and their rows."""
        owner = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        columns: dict[str, Any] = {"document": owner}
        for name, values in of_documents.items():
            if name == "emulated":
                columns[name] = np.asarray(values, dtype=bool)[owner]
            else:
                codes, names = pd.factorize(np.asarray(values, dtype=object))
                categories = pd.Index(names, dtype=object)
                columns[name] = pd.Categorical.from_codes(codes[owner], categories)
        columns |= {name: text.column() for name, text in self.text.items()}
        columns |= {name: np.asarray(numbers) for name, numbers in self.numbers.items()}
        columns[SCALED] = np.asarray(self.scaled, dtype=bool)
        columns |= {name: self.axes[name].column(self.length) for name in sorted(self.axes)}
        return pd.DataFrame(columns)
