"""Which factor a regression comes with: the old software once more, on tonight's machine.

A driver cannot be put back overnight, an environment that is still installed can. Where both moved,
the documents that got worse are measured in the old environment: if they are as bad there, the
machine or its driver moved them, if they are as good as before, the new software did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from allocmark.compare.comparing import compare_pair
from allocmark.compare.model import Mean
from allocmark.compare.run_set import RunSetPair, read_paths
from allocmark.compare.thresholds import Thresholds
from allocmark.gate.gating import Gate
from allocmark.nightly.factors import Factors

MOST = 6
"""So many documents are measured again, those with the largest differences first."""
_MOST_OF = 0.5

MeasureOld = Callable[[Sequence[tuple[str, str]]], Sequence[Path]]
"""Measures documents (experiment, subject) with the old software; returns their files."""


def attribute(
    found: Gate, moved: Factors, measure_old: MeasureOld | None, thresholds: Thresholds
) -> str:
    """Say in a sentence which factor the regressions of a gate come with."""
    system = ", ".join(f"{c.name} {c.a} to {c.b}" for c in moved.system)
    software = ", ".join(f"{c.name} {c.a} to {c.b}" for c in moved.software)
    if not system and not software:
        return "Nothing in the stack moved: look at the conditions, and measure once more."
    if not software:
        return f"Only the machine moved: {system}."
    if not system:
        return f"Only the software moved: {software}."
    if measure_old is None:
        return (
            f"The machine moved ({system}) and the software did ({software}); the old software is "
            "not installed any more, so they cannot be told apart."
        )
    means = _means(found)
    both = [(row.probe, row.subject) for row in found.regressions]
    both += [(mean.probe, mean.subject) for mean in means]
    documents = tuple(dict.fromkeys(both))[:MOST]
    if not documents:
        return "The figures that are lost cannot be told apart by factors."
    a = read_paths("the last good", [p for run in found.baselines for p in run.documents()])
    old = read_paths("the old software", measure_old(documents))
    again = compare_pair(RunSetPair(a, old), thresholds)
    verdicts = {row.figure_id: row.verdict for row in again.rows}
    ratios = {mean.name: mean.ratio for mean in again.means}
    known = [row.figure_id for row in found.regressions if row.figure_id in verdicts]
    bad = [verdicts[name] == "worse" for name in known]
    # One more run settles no mean: as bad is what is nearer to the night's than to the last good.
    bad += [
        abs(math.log(ratios[mean.name])) > abs(math.log(mean.ratio)) / 2
        for mean in means
        if mean.name in ratios
    ]
    counts = f"{sum(bad)} of {len(bad)} are as bad with the old software on this machine"
    if bad and sum(bad) > _MOST_OF * len(bad):
        return f"The machine moved them ({system}): {counts}."
    return f"The software moved them ({software}): {counts}."


def _means(found: Gate) -> list[Mean]:
    """Return the means of single allocators that got worse.

    Of a group that is worse only as a whole, all its allocators are returned.
    """
    means = [mean for mean in found.worse_means if mean.scope != "all"]
    single = {mean.group for mean in means}
    whole = {mean.group for mean in found.worse_means if mean.scope == "all"} - single
    every = [mean for mean in found.comparison.means if mean.scope == "allocator"]
    return means + [mean for mean in every if mean.group in whole]
