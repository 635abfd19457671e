"""The newest run of a results folder, gated with all that was measured with it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.compare.thresholds import load
from allocmark.gate.gating import WORST_FIRST, Gate, gate
from allocmark.gate.rerunning import rerun_into
from allocmark.report.comparison_text import FORMATS
from allocmark.store.runs import RecordedRun, candidate_of, newest_of_each_series, runs_below
from allocmark.system.errors import (
    EXIT_FINE,
    EXIT_REGRESSION,
    AllocmarkError,
    NothingBeforeError,
    lookup,
)

ONE_COMPARISON = ("csv", "json")
OWN_THRESHOLDS = "thresholds.toml"
"""The project's own rules, beside its results, where there are any."""


@dataclass(frozen=True, slots=True)
class GateReport:
    """What is printed, and what it rests on: the newest run's gate and those of its other lines."""

    gates: tuple[Gate, ...]
    text: str
    not_held: tuple[str, ...] = ()
    """Why runs that were made with the newest one are held against nothing."""

    def exit_code(self, if_unclear: int) -> int:
        """Return 1 for a regression, `if_unclear` for unclear, else 0."""
        outcomes = {gate.outcome for gate in self.gates}
        if "regression" in outcomes:
            return EXIT_REGRESSION
        return if_unclear if "unclear" in outcomes else EXIT_FINE


def gate_newest_run(
    results: Path,
    *,
    against: Sequence[str] = (),
    last: int = 3,
    rounds: int = 0,
    thresholds: Path | None = None,
    format: str = "text",
) -> GateReport:
    """Gate the newest run below `results`, and what was measured with it on other lines.

    As CSV and JSON, which hold one comparison, the newest alone. Raises `AllocmarkError`.
    """
    write = lookup("format", format, FORMATS)
    rules = load(thresholds or own_thresholds(results))
    named_runs = [run for name in against for run in named(name, results)]
    runs = runs_below(results)
    newest = candidate_of(runs, results)
    gates, texts, not_held = [], [], []
    with tempfile.TemporaryDirectory(prefix="allocmark-gate-") as scratch:
        for number, candidate in enumerate(newest_of_each_series(runs)):
            if number and format in ONE_COMPARISON:
                not_held.append(f"{candidate.name} is not in it: gate it as text or md")
                continue
            again = rerun_into(Path(scratch) / str(number)) if rounds else None
            try:
                found = gate(
                    results,
                    rules,
                    candidate=candidate,
                    against=named_runs,
                    last=last,
                    rerun=again,
                    rounds=rounds,
                )
            except NothingBeforeError as error:
                if candidate != newest:
                    not_held.append(str(error))
                    continue
                if against:  # To name what it cannot be held against is no first run.
                    raise AllocmarkError(str(error)) from None
                raise
            gates.append(found)
            texts.append(write(found.comparison))
    if format not in ONE_COMPARISON:
        by_outcome = sorted(gates, key=lambda one: WORST_FIRST.index(one.outcome))
        texts.insert(0, "".join(f"{one.sentence()}\n" for one in by_outcome))
    return GateReport(tuple(gates), "\n".join(texts), tuple(not_held))


def own_thresholds(results: Path) -> Path | None:
    """Return the project's own rules, None where it has none."""
    path = results.parent / OWN_THRESHOLDS
    return path if path.is_file() else None


def named(name: str, results: Path) -> list[RecordedRun]:
    """Return the runs of a folder, or of a stack (``stack`` or ``machine/stack``) in `results`."""
    if name and Path(name).is_dir():  # Path("") is the current folder.
        found = runs_below(Path(name))
    else:
        found = [r for r in runs_below(results) if name in (r.stack, f"{r.machine}/{r.stack}")]
    if not found:
        what = name or "''"
        raise AllocmarkError(f"{what} is no folder with results and no stack of {results}")
    return found
