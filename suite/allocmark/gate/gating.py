"""Whether the newest run is as good as earlier ones: fine, a regression, or unclear."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from allocmark.compare.comparing import compare_pair
from allocmark.compare.model import Comparison, Mean, Missing, Row
from allocmark.compare.run_set import RunSet, RunSetPair, read_paths
from allocmark.compare.thresholds import Thresholds
from allocmark.report.comparison import both_values
from allocmark.store.runs import RecordedRun, baselines_of, candidate_of, of_its_series, runs_below
from allocmark.system.errors import AllocmarkError, NothingBeforeError
from allocmark.system.garbage import no_garbage_collection
from allocmark.system.printable import visible
from allocmark.system.units import format_count

Outcome = Literal["fine", "regression", "unclear"]
WORST_FIRST: tuple[Outcome, ...] = ("regression", "unclear", "fine")

_MOST_NAMED = 3
"""So many of the runs it is held against are named."""
Rerun = Callable[[RecordedRun, Sequence[tuple[str, str]], int], Sequence[Path]]
"""Measures documents (experiment, subject) of a run again and returns their files; the number
counts the rounds."""


@dataclass(frozen=True)
class Gate:
    """What the gate says, and the comparison it rests on.

    `lost` are figures that the baseline has and the candidate should have; `rounds` is how often
    unclear documents were measured again.
    """

    candidate: RecordedRun
    baselines: tuple[RecordedRun, ...]
    comparison: Comparison
    outcome: Outcome
    lost: tuple[Missing, ...]
    rounds: int

    @property
    def regressions(self) -> Sequence[Row]:
        """The figures that are worse, the largest differences first."""
        return self.comparison.of("worse")

    @property
    def worse_means(self) -> Sequence[Mean]:
        """The means that are worse: of whole groups, of allocators, of single calls."""
        return self.comparison.means_of("worse")

    def _unsettled(self) -> list[str]:
        """Return what keeps it from being fine where nothing is worse."""
        reasons, figures = [], _resolvable(self.comparison)
        if figures:
            reasons.append(
                f"{figures} of {len(self.comparison.of('unclear'))} unclear figures may hide a "
                "difference that matters (--rerun measures these again)"
            )
        return reasons if self.candidate.finished else [*reasons, "the run has no end"]

    @property
    def found(self) -> str:
        """What was found, in words: the same of every run that has the same regression."""
        if self.outcome == "unclear":
            return f"nothing is worse, but {' and '.join(self._unsettled())}"
        counts = (
            (len(self.regressions), "figure", "worse"),
            (len(self.worse_means), "mean", "worse"),
            (len(self.lost), "figure", "no longer measured"),
        )
        words = [
            f"{format_count(count, noun)} {'is' if count == 1 else 'are'} {how}"
            for count, noun, how in counts
            if count
        ]
        return ", ".join(words) or "nothing is worse"

    def sentence(self) -> str:
        """Return the outcome in one sentence, with the figure that is worse by most."""
        most = ""
        if self.regressions:
            row = self.regressions[0]
            most = " ({}: {} -> {})".format(visible(row.figure_id), *both_values(row))
        against = ", ".join(run.name for run in self.baselines[-_MOST_NAMED:])
        if (more := len(self.baselines) - _MOST_NAMED) > 0:
            against = f"{more} before these, {against}"
        runs = f"{self.candidate.name} against {against}"
        return f"gate: {self.outcome}: {self.found}{most}: {runs}"


def gate(
    root: Path,
    thresholds: Thresholds,
    *,
    candidate: RecordedRun | None = None,
    against: Sequence[RecordedRun] = (),
    last: int = 1,
    bad: Collection[Path] = (),
    rerun: Rerun | None = None,
    rounds: int = 0,
) -> Gate:
    """Hold a run (the newest) against earlier ones of its line (the `last`, without the `bad`).

    `against` names others: those of them that are on its line count.
    Documents with figures that more runs can settle are measured again, up to `rounds` times.
    Raises `NothingBeforeError` where there is no earlier run to hold it against, `AllocmarkError`
    where there is no run at all or the machines differ.
    """
    runs = [run for run in runs_below(root) if run.folder not in set(bad)]
    if candidate is None:
        candidate = candidate_of(runs, root)
    baselines = (
        of_its_series(against, candidate) if against else baselines_of(runs, candidate, last)
    )
    others = sorted({run.machine for run in baselines} - {candidate.machine})
    if others:
        raise AllocmarkError(
            f"{candidate.machine} and {others[0]} are different machines, which is a study and no "
            "regression: use allocmark compare"
        )
    paths = [path for run in baselines for path in run.documents()]
    if not candidate.whole:  # What it was not asked for is not lost.
        own = {path.name for path in candidate.documents()}
        paths = [path for path in paths if path.name in own]
        if not paths:
            raise NothingBeforeError(
                f"nothing in {candidate.name} was measured before: there is no "
                "earlier figure to hold it against, so it passes"
            )
    with no_garbage_collection():
        a = read_paths("earlier runs", paths)
        b = read_paths("the newest", candidate.documents())
        if b.unreadable:  # Of what cannot be read nobody can tell whether it is as good as it was.
            raise AllocmarkError(f"{candidate.name} cannot be judged: {b.unreadable[0]}")
        found = compare_pair(RunSetPair(a, b), thresholds)
    done = 0
    while rerun is not None and done < rounds and _resolvable(found):
        done += 1
        wanted = sorted({(row.probe, row.subject) for row in found.rows if row.resolvable})
        b = _joined(b, read_paths("measured again", rerun(candidate, wanted, done)), candidate)
        found = compare_pair(RunSetPair(a, b), thresholds)
    lost = tuple(m for m in found.missing if m.only == "a") if candidate.finished else ()
    worse = found.of("worse") or found.means_of("worse") or lost
    unclear = _resolvable(found) or not candidate.finished
    outcome: Outcome = "regression" if worse else "unclear" if unclear else "fine"
    return Gate(candidate, tuple(baselines), found, outcome, lost, done)


def _resolvable(found: Comparison) -> int:
    """Return how many of the unclear figures more runs can settle."""
    return sum(row.resolvable for row in found.rows)


def _joined(side: RunSet, more: RunSet, candidate: RecordedRun) -> RunSet:
    stacks = {source.stack for source in more.sources}
    if stacks != {candidate.stack}:
        raise AllocmarkError(
            f"this machine has {', '.join(sorted(stacks))} now, not {candidate.stack}: "
            "gate without measuring again (--rerun 0)"
        )
    return replace(side, sources=(*side.sources, *more.sources))
