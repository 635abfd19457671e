"""What a comparison says, as plain data: rows with verdicts, and what differed beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from allocmark.compare.thresholds import Reading
from allocmark.schema.figure import Axis
from allocmark.schema.figure_id import figure_id_of

Verdict = Literal["same", "better", "worse", "changed", "unclear"]
"""``changed``: a real difference in a figure of which neither more nor less is better."""
Scope = Literal["all", "allocator", "class"]
"""Whose figures of a group a mean is of: all allocators', one's, or one's of one call."""
_TIMES = frozenset({"ns", "s", "seconds"})
VERDICTS: tuple[Verdict, ...] = ("worse", "better", "changed", "unclear", "same")
"""In the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure that both sides have.

    `figure_id` is its name, ``probe/subject/metric axis=value …``. `a` and `b` are what is
    compared: the medians, over the runs of a side, of the value or (`reading` says so) of the
    fastest reading; `least` is the smallest change that matters; `ratio` is b over a, `low` and
    `high` the 95 % interval of it (None for exact figures, and where a value is 0). `q` is the
    probability of a false alarm after the correction for the number of figures. `note` says in
    words what the verdict rests on, `resolvable` says that the difference would matter and that
    more runs can settle whether it is one, `command` measures the figure again. `series_id` is
    whose the figure is (machine, profile, framework, stack) where a comparison holds several pairs
    of stacks, "" otherwise.
    """

    machine: str
    profile: str
    probe: str
    subject: str
    metric: str
    unit: str
    axes: Mapping[str, Axis]
    group: str
    least: float
    exact: bool
    reading: Reading
    emulated: bool
    a: float
    b: float
    ratio: float | None
    low: float | None
    high: float | None
    q: float | None
    verdict: Verdict
    note: str
    resolvable: bool
    command: str
    series_id: str

    @property
    def figure_id(self) -> str:
        """The figure's name, as patterns of `thresholds.toml` match it."""
        return figure_id_of(self.probe, self.subject, self.metric, self.axes)


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure that one side has and the other has not; `reason` is the other's own, if any.

    `series_id` is that of `Row`.
    """

    figure_id: str
    only: Literal["a", "b"]
    reason: str
    series_id: str


@dataclass(frozen=True, slots=True)
class Change:
    """One fact of the environment that differs: what it was in A and is in B."""

    name: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Mean:
    """The geometric mean of b over a of many times, with a verdict; see `compare.means`.

    `scope` says whose: `subject` is "" where it is that of all allocators, `cell` names a class and
    is "" otherwise. `low`, `high`, `q`, `note` and `resolvable` are those of `Row`. `shows` is the
    smallest step that such a mean is expected to show 95 % of the time with these runs.
    """

    scope: Scope
    series_id: str
    probe: str
    subject: str
    cell: str
    group: str
    least: float
    figures: int
    runs_a: int
    runs_b: int
    ratio: float
    low: float
    high: float
    q: float
    shows: float
    verdict: Verdict
    note: str
    resolvable: bool

    @property
    def runs(self) -> tuple[int, int]:
        """How many runs of either side it is of."""
        return self.runs_a, self.runs_b

    @property
    def name(self) -> str:
        """What it is the mean of, in words."""
        if self.scope == "class":
            return self.cell
        return f"{self.group} of {self.subject}" if self.subject else self.group


@dataclass(frozen=True, slots=True)
class RunSetFacts:
    """One run set: how it was named, the stacks and runs it holds, how many documents."""

    label: str
    stacks: tuple[str, ...]
    runs: tuple[str, ...]
    documents: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that two sides differ in.

    `study`: the machines differ (or only one side is emulated): no difference is a regression.
    `warnings` are said before anything else: conditions that differ, runs that have no end.
    """

    a: RunSetFacts
    b: RunSetFacts
    study: bool
    warnings: tuple[str, ...]
    environment: tuple[Change, ...]
    rows: tuple[Row, ...]
    missing: tuple[Missing, ...]
    means: tuple[Mean, ...]

    def counted(self) -> dict[Verdict, int]:
        """Return how many rows have each verdict."""
        found = Counter(row.verdict for row in self.rows)
        return {verdict: found[verdict] for verdict in VERDICTS}

    def of(self, *verdicts: Verdict) -> Sequence[Row]:
        """Return the rows with one of these verdicts: what is exact first, times last."""
        return sorted((row for row in self.rows if row.verdict in verdicts), key=_first)

    def means_of(self, *verdicts: Verdict) -> Sequence[Mean]:
        """Return the means with one of these verdicts, those of most figures first."""
        chosen = (mean for mean in self.means if mean.verdict in verdicts)
        return sorted(chosen, key=lambda mean: (get_args(Scope).index(mean.scope), mean.name))


def _first(row: Row) -> tuple[bool, bool, float, str]:
    """Order rows: what is exact, then bytes and counts, then times; the largest changes first."""
    is_time = row.unit in _TIMES or row.unit.endswith("/s")
    if row.ratio is None:
        return (not row.exact, is_time, float("-inf"), row.figure_id)
    size = row.ratio if row.ratio >= 1 else 1 / row.ratio if row.ratio > 0 else float("inf")
    return (not row.exact, is_time, -size, row.figure_id)
