"""From folders to kinds: runs in columns, by machine, as one array of values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from allocmark.compare.thresholds import Rule, Thresholds
from allocmark.machine.stack import machine_name
from allocmark.store.columns import RunColumns, figure_id, folders_below
from allocmark.store.columns import read as read_run
from allocmark.system.errors import DocumentError, NoResultsError

Floats = NDArray[np.float64]
_UUID_LETTERS = 12
"""So much of a UUID tells the GPUs of a host apart."""


@dataclass
class KindRuns:
    """Every run of one kind, as arrays by run and cell (NaN where a run lacks it).

    `machines` are names, `machine` says whose each run is. `exact` and `time` say of each cell how
    it is compared, `within` is the variance of its logarithm within a run, `document` the place of
    the command that measures it again.
    """

    gpu: str
    profile: str
    framework: str
    emulated: bool
    machines: list[str]
    machine: NDArray[np.int64]
    cells: list[str]
    units: list[str]
    rules: list[Rule]
    exact: NDArray[np.bool_]
    time: NDArray[np.bool_]
    within: Floats
    document: NDArray[np.int16]
    values: Floats
    runs: list[RunColumns]


def read(
    folders: Sequence[Path], thresholds: Thresholds
) -> tuple[list[KindRuns], list[str], list[str]]:
    """Return the kinds with several machines, and in words what has no equals, and what is damaged.

    Raises `NoResultsError` for a folder without results.
    """
    kinds: defaultdict[tuple[str, str, str, bool], dict[str, list[RunColumns]]]
    kinds = defaultdict(lambda: defaultdict(list))
    damaged: list[str] = []
    for root in folders:
        below = folders_below(root)
        if not below:
            raise NoResultsError(root)
        for folder in below:
            try:
                run = read_run(folder)
            except DocumentError as error:  # One of a thousand must not hide what the others say.
                damaged.append(str(error))
                continue
            facts = run.facts
            kind = (str(facts.get("gpu")), run.profile, str(facts.get("framework")), run.emulated)
            kinds[kind][_machine(run)].append(run)
    several, alone = [], []
    for kind, machines in sorted(kinds.items()):
        if len(machines) > 1:
            several.append(_kind_runs(kind, machines, thresholds))
        else:
            words = ", ".join(str(part) for part in kind[:3])
            alone.append(f"{words}: only {next(iter(machines))} has runs of it")
    return several, alone, damaged


def _machine(run: RunColumns) -> str:
    """Return which machine a run is of, in words.

    A name of the user's own, else host and GPU; runs of older versions have neither in them, and
    are told apart by their results folders.
    """
    facts = run.facts
    own = str(facts.get("machine", ""))
    alias = own.removeprefix(machine_name(str(facts.get("gpu", "")), run.emulated)).lstrip("-")
    if alias:
        return alias
    parts = [str(facts.get("host_name") or ""), str(facts.get("gpu_uuid") or "")[:_UUID_LETTERS]]
    return " ".join(filter(None, parts)) or str(run.folder.parents[2])


def _kind_runs(
    kind: tuple[str, str, str, bool],
    machines: Mapping[str, Iterable[RunColumns]],
    thresholds: Thresholds,
) -> KindRuns:
    names = sorted(machines)
    runs = [
        (number, run)
        for number, name in enumerate(names)
        for run in sorted(machines[name], key=lambda run: run.started)
    ]
    cells = _Cells(thresholds)
    rows: list[Floats] = []
    speeds: dict[int, float] = {}
    for machine, run in runs:  # One table at a time: a thousand would not fit into memory.
        table = run.table()
        place = cells.places(table)
        row = np.full(len(cells.names), np.nan)
        fastest = np.asarray([rule.reading == "fastest" for rule in cells.rules])[place]
        row[place] = _at_one_speed(table, fastest, machine, speeds)
        rows.append(row)
    values = np.full((len(runs), len(cells.names)), np.nan)
    for number, row in enumerate(rows):
        values[number, : len(row)] = row
        rows[number] = row[:0]
    return KindRuns(
        *kind,
        machines=names,
        machine=np.asarray([machine for machine, _ in runs]),
        cells=cells.names,
        units=cells.units,
        rules=cells.rules,
        exact=cells.column("exact"),
        time=cells.column("time"),
        within=cells.column("within"),
        document=cells.column("document"),
        values=values,
        runs=[run for _, run in runs],
    )


class _Cells:
    """Every cell, in the order in which they are met, and what all runs say of it."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self.names: list[str] = []
        self.units: list[str] = []
        self.rules: list[Rule] = []
        self._columns: dict[str, NDArray[Any]] = {
            "exact": np.empty(0, dtype=bool),
            "time": np.empty(0, dtype=bool),
            "within": np.empty(0),
            "document": np.empty(0, dtype=np.int16),
        }
        self._last: tuple[pa.ChunkedArray, NDArray[np.int64]] | None = None

    def column(self, name: str) -> NDArray[Any]:
        """Return what is said of each cell."""
        return self._columns[name]

    def places(self, table: pa.Table) -> NDArray[np.int64]:
        """Return the places of a run's cells, and take what it says of them."""
        wanted = table["cell"]
        if self._last is not None and wanted.equals(self._last[0]):
            place = self._last[1]
        else:
            place = self._looked_up(wanted, table["unit"])
            self._last = wanted, place
        found = self._columns
        found["exact"][place] &= table["exact"].to_numpy()
        found["time"][place] |= table["time"].to_numpy()
        found["within"][place] = np.maximum(found["within"][place], table["within"].to_numpy())
        found["document"][place] = table["document"].to_numpy()
        return place

    def _looked_up(self, wanted: pa.ChunkedArray, unit: pa.ChunkedArray) -> NDArray[np.int64]:
        known = pc.index_in(wanted, value_set=pa.array(self.names, pa.string()))
        if fresh := known.null_count:
            is_fresh = pc.is_null(known)
            names = wanted.filter(is_fresh).to_pylist()
            self.names += names
            self.rules += [self._thresholds.of(figure_id(name)) for name in names]
            self.units += unit.filter(is_fresh).to_pylist()
            begin = {"exact": True, "time": False, "within": 0.0, "document": 0}
            for name, column in self._columns.items():
                more = np.full(fresh, begin[name], dtype=column.dtype)
                self._columns[name] = np.concatenate([column, more])
            known = pc.index_in(wanted, value_set=pa.array(self.names, pa.string()))
        return np.asarray(known.to_numpy(), dtype=np.int64)


def _at_one_speed(
    table: pa.Table, fastest: NDArray[np.bool_], machine: int, speeds: dict[int, float]
) -> Floats:
    """Return a run's values, its times at the core speed of the first run of its machine.

    Between machines nothing is scaled: that their cores differ is a result.
    """
    values = np.where(fastest, table["fastest"].to_numpy(), table["value"].to_numpy())
    speed = table["core_speed_ns"].to_numpy()
    known = speed[~np.isnan(speed)]
    if not len(known):
        return np.asarray(values)
    wanted = speeds.setdefault(machine, float(known[0]))
    return np.asarray(values * np.where(np.isnan(speed), 1.0, wanted / speed))
