"""Fleets with a known answer: runs of many machines, drawn around the committed record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from allocmark.compare.means import HOST
from allocmark.compare.thresholds import load
from allocmark.fleet.reading import KindRuns
from allocmark.store.columns import RunColumns, figure_id, read

RECORD = Path(__file__).parents[2] / "results" / "nvidia-h200"


@cache
def record(names: tuple[str, ...], scratch: Path) -> RunColumns:
    """Return these documents of the record in columns, made in a folder of the test's own."""
    folder = scratch / "nvidia-h200" / "stack" / "full"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(RECORD.glob("torch*/full/*.json.gz")):
        if any(path.name.startswith(name) for name in names):
            (folder / path.name).write_bytes(path.read_bytes())
    return read(folder)


class Fleets:
    """Draws fleets: machines of the same mean, whose runs differ as the thresholds say.

    What all figures of a process have in common differs by host, too, by the part of it that a
    host is taken to account for.
    """

    def __init__(self, run: RunColumns, seed: int) -> None:
        table = run.table()
        chosen = ~np.isnan(table["value"].to_numpy())
        table = table.filter(chosen)
        thresholds = load()
        self._run = run
        self.cells: list[str] = table["cell"].to_pylist()
        self._units: list[str] = table["unit"].to_pylist()
        self._value = table["value"].to_numpy()
        self._exact = table["exact"].to_numpy()
        self._time = table["time"].to_numpy()
        self._rules = [thresholds.of(figure_id(cell)) for cell in self.cells]
        processes = ["/".join(cell.split("/", 2)[:2]) for cell in self.cells]
        numbers: dict[Any, int] = {}
        self._process = np.asarray(
            [
                numbers.setdefault((process, rule.group), len(numbers))
                for process, rule in zip(processes, self._rules, strict=True)
            ]
        )
        self._generator = np.random.default_rng(seed)

    @property
    def groups(self) -> Sequence[str]:
        """The group of each cell."""
        return [rule.group for rule in self._rules]

    def draw(self, machines: int, runs: int) -> KindRuns:
        """Return a fleet in which nothing is odd."""
        process_sd = np.asarray([rule.process for rule in self._rules])
        figure_sd = np.asarray([rule.figure for rule in self._rules])
        moves = ~self._exact & (self._value > 0)
        count, generator = int(self._process.max()) + 1, self._generator
        values = np.empty((machines * runs, len(self.cells)))
        for machine in range(machines):
            host = generator.normal(0, math.sqrt(HOST), count)[self._process] * process_sd
            for run in range(runs):
                common = generator.normal(0, 1, count)[self._process] * process_sd
                own = generator.normal(0, 1, len(self.cells)) * figure_sd
                moved = np.where(moves, np.exp(host + common + own), 1.0)
                values[machine * runs + run] = self._value * moved
        size = len(self.cells)
        return KindRuns(
            gpu="NVIDIA H200",
            profile="quick",
            framework="torch",
            emulated=False,
            machines=[f"node{number:03}" for number in range(machines)],
            machine=np.repeat(np.arange(machines), runs),
            cells=self.cells,
            units=self._units,
            rules=self._rules,
            exact=self._exact,
            time=self._time,
            within=np.zeros(size),
            document=np.zeros(size, dtype=np.int16),
            values=values,
            runs=[self._run] * (machines * runs),
        )

    def step(self, kind: KindRuns, machine: int, group: str, factor: float) -> KindRuns:
        """Return the fleet with a step in all figures of a group of one machine."""
        values = kind.values.copy()
        chosen = np.asarray([name == group for name in self.groups])
        values[np.ix_(kind.machine == machine, chosen)] *= factor
        return replace(kind, values=values)
