"""What the comparison finds and what it imagines: ``allocmark dev power RUNS...``

Each RUNS is a results folder, or a folder of several, measured with nothing changed between them.
The runs are dealt to A and B in every way of a design (one against one, half against half, all but
one against one), and

- as they are, every figure called changed is a false alarm;
- with steps planted into B, it is counted how many are found, how many figures without a step are
  called changed, and how many steps are blamed on the wrong side.

A step is planted into a third of the figures of a group, or (``together``) into all that one
process measured of it, which is harder: a process can be slower throughout. ``--drawn N`` draws N
runs from those that there are, each figure moved by what figures and processes moved by between
them; from a single run it takes the thresholds' deviations, which says nothing about real runs.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allocmark.compare import noise
from allocmark.compare.judging import judge
from allocmark.compare.pairing import FigurePair, figure_pairs
from allocmark.compare.readings import as_read, is_exact
from allocmark.compare.run_set import RunSet, RunSetPair, read_run_set
from allocmark.compare.thresholds import Rule, Thresholds, load
from allocmark.system.errors import AllocmarkError
from allocmark.tools import power_means
from allocmark.tools.counts import CHANGED, SHARE, STEPS, Count, Group, percent
from allocmark.tools.synthetic_changes import counted_up, drawn, plant

MOST_SPLITS = 6
"""So many ways of dealing the runs are tried for each design, figure by figure."""
MOST_OF_MEANS = 20
"""So many are tried for the means, which are few."""
_Ruled = Sequence[tuple[FigurePair, Rule]]


@dataclass
class Power:
    """The outcome for one design: how many runs a side, and what became of each group."""

    runs: tuple[int, int]
    splits: int
    deals_of_means: int
    groups: defaultdict[str, Group] = field(default_factory=lambda: defaultdict(Group))
    exact_alarms: Count = field(default_factory=Count)
    exact_found: Count = field(default_factory=Count)
    means: power_means.Tallies = field(default_factory=lambda: defaultdict(Group))

    @property
    def alarms(self) -> Count:
        """The false alarms of all figures together, exact ones among them."""
        total = Count(self.exact_alarms.hit, self.exact_alarms.total)
        for group in self.groups.values():
            total.add(group.alarms.hit, group.alarms.total)
        return total


def designs(runs: int) -> list[tuple[int, int]]:
    """Return the numbers of runs in A and B that are tried."""
    found = [(1, 1), (runs // 2, runs // 2), (runs - 1, 1)]
    return list(dict.fromkeys(design for design in found if min(design) > 0))


def simulate(
    runs: Sequence[RunSet],
    design: tuple[int, int],
    thresholds: Thresholds,
    steps: Sequence[float] = STEPS,
    seed: int = 1,
) -> Power:
    """Deal the runs as the design says, as they are and with steps."""
    generator = np.random.default_rng(seed)
    deals = list(_deals(len(runs), design))
    if len(deals) > MOST_SPLITS:
        deals = [deals[i] for i in generator.permutation(len(deals))[:MOST_OF_MEANS]]
    power = Power(design, splits=min(len(deals), MOST_SPLITS), deals_of_means=len(deals))
    for number, (a, b) in enumerate(deals):
        sets = RunSetPair(_joined([runs[i] for i in a]), _joined([runs[i] for i in b]))
        both = [(c, thresholds.of(c.figure_id)) for c in figure_pairs(sets)[0]]
        kept = [(as_read(c, r), r) for c, r in both if not r.ignore]
        power_means.add(power.means, kept, steps, generator)
        if number < MOST_SPLITS:
            _exact(power, [item for item in kept if is_exact(item[0])])
            _sampled(power, [item for item in kept if not is_exact(item[0])], steps, generator)
    return power


def _exact(power: Power, both: _Ruled) -> None:
    power.exact_alarms.add(_changed(_verdicts(both)), len(both))
    # An integer so large that one more is no other number is nothing that is counted.
    small = [(c, r) for c, r in both if all(abs(f.value or 0) < 2**50 for f in c.b.values())]
    more = [(counted_up(c), r) for c, r in small]
    planted = [(c, r) for c, r in more if any(f.value for f in c.b.values())]
    power.exact_found.add(_changed(_verdicts(planted)), len(planted))


def _sampled(
    power: Power, both: _Ruled, steps: Sequence[float], generator: np.random.Generator
) -> None:
    for (_, rule), verdict in zip(both, _verdicts(both), strict=True):
        power.groups[rule.group].alarms.add(verdict in CHANGED, 1)
    for step in steps:
        apart = generator.integers(SHARE, size=len(both)) == 0
        _planted(power, both, step, apart, together=False)
        processes = sorted({_process(pair, rule) for pair, rule in both})
        order = generator.permutation(len(processes))[: len(processes) // SHARE]
        hit = {processes[i] for i in order}
        chosen = np.asarray([_process(pair, rule) in hit for pair, rule in both])
        _planted(power, both, step, chosen, together=True)


def _planted(
    power: Power, both: _Ruled, step: float, chosen: NDArray[np.bool_], together: bool
) -> None:
    changed = [
        (plant(pair, 1 + step) if planted else pair, rule)
        for (pair, rule), planted in zip(both, chosen, strict=True)
    ]
    for (pair, rule), planted, verdict in zip(both, chosen, _verdicts(changed), strict=True):
        group = power.groups[rule.group]
        if not planted:
            group.beside.add(verdict in CHANGED, 1)
        elif not _zero(pair):
            group.judge(verdict, rule.better, step, together)


def spreads(runs: Sequence[RunSet], thresholds: Thresholds) -> dict[str, noise.Spread]:
    """Return what the runs differ by, by group: what `thresholds.toml` should say."""
    everything = RunSetPair(_joined(runs), _joined(runs))
    both = [(c, thresholds.of(c.figure_id)) for c in figure_pairs(everything)[0]]
    kept = [(as_read(c, r), r) for c, r in both if not (r.ignore or is_exact(c) or _zero(c))]
    found = {}
    for name in sorted({rule.group for _, rule in kept}):
        chosen = [(c, r) for c, r in kept if r.group == name and len(c.a) > 1]
        if not chosen:
            continue
        columns = sorted({run for pair, _ in chosen for run in pair.a})
        logs = np.full((len(chosen), len(columns)), np.nan)
        for row, (pair, _) in enumerate(chosen):
            for run, figure in pair.a.items():
                logs[row, columns.index(run)] = math.log(figure.value or math.nan)
        numbers: dict[tuple[str, ...], int] = {}
        process = [numbers.setdefault(_process(c, r), len(numbers)) for c, r in chosen]
        found[name] = noise.spread([logs], np.asarray(process, dtype=np.int64))
    return found


def text(power: Power) -> str:
    """Return the table of one design."""
    lines = [
        f"{power.runs[0]} against {power.runs[1]} runs, dealt in {power.splits} ways",
        f"  nothing changed: {_share(power.alarms)} of all figures called changed",
        f"  exact: {power.exact_alarms.hit} of {power.exact_alarms.total} called changed; one more "
        f"of what is counted: {_share(power.exact_found)} found",
        f"  {'figures':28}{'false':>9}{'beside':>9}  found of 5 %, 10 %, 20 %    "
        "smallest found  together  wrong side",
    ]
    for name, group in sorted(power.groups.items()):
        found = group.shares((0.05, 0.10, 0.20))
        lines.append(
            f"  {name:28}{percent(group.alarms.share):>9}{percent(group.beside.share):>9}{found}"
            f"{percent(group.smallest()):>18}{percent(group.smallest(True)):>10}"
            f"{group.wrong_side:>12}"
        )
    alarms = [group.alarms for group in power.means.values()]
    counted = f"{sum(c.hit for c in alarms)} of {sum(c.total for c in alarms)}"
    lines += [f"  means, in {power.deals_of_means} ways: {counted} called changed"]
    return "\n".join(lines + power_means.text(power.means))


def spread_text(found: Mapping[str, noise.Spread], thresholds: Thresholds) -> str:
    """Return what runs differ by, beside what the thresholds say."""
    lines = [f"  {'figures':28}{'process':>9}{'figure':>9}{'typical':>9}{'thresholds say':>24}"]
    for name, spread in found.items():
        rule = next(rule for rule in thresholds.rules if rule.group == name)
        lines.append(
            f"  {name:28}{percent(spread.process_sd):>9}{percent(spread.figure_sd):>9}"
            f"{percent(spread.typical_sd):>9}{percent(rule.process):>14} {percent(rule.figure):>9}"
        )
    return "\n".join(lines)


def runs_of(names: Sequence[str]) -> list[RunSet]:
    """Return each run below these folders as a side of its own."""
    found: dict[tuple[str, str], list[RunSet]] = {}
    for name in names:
        side = read_run_set(name, Path("results"))
        for source in side.sources:
            run = source.document.run
            found.setdefault((source.stack, run), []).append(RunSet(run, (source,)))
    return [_joined(parts) for _, parts in sorted(found.items())]


def simulations(
    names: Sequence[str], drawn_runs: int, rules: Path | None, seed: int
) -> Iterator[str]:
    """Yield what the runs below some folders differ by, then the table of each design.

    `drawn_runs` are drawn from them instead, unless it is 0. Raises `AllocmarkError`.
    """
    thresholds = load(rules)
    runs = runs_of(names)
    if drawn_runs:
        runs = drawn(runs, drawn_runs, thresholds, seed)
    if len(runs) < 2:  # noqa: PLR2004 - a comparison has two sides
        raise AllocmarkError("one run has nothing to be compared with: name more, or --drawn 6")
    yield f"{len(runs)} runs{', drawn' if drawn_runs else ''}; what they differ by:"
    yield spread_text(spreads(runs, thresholds), thresholds)
    for design in designs(len(runs)):
        yield f"\n{text(simulate(runs, design, thresholds, seed=seed))}"


def _deals(runs: int, design: tuple[int, int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for a in itertools.combinations(range(runs), design[0]):
        rest = [i for i in range(runs) if i not in a]
        for b in itertools.combinations(rest, design[1]):
            yield a, b


def _joined(sides: Sequence[RunSet]) -> RunSet:
    return RunSet(sides[0].label, tuple(source for side in sides for source in side.sources))


def _process(pair: FigurePair, rule: Rule) -> tuple[str, ...]:
    return (*pair.key.document, rule.group)


def _zero(pair: FigurePair) -> bool:
    return any((f.value or 0) <= 0 for f in [*pair.a.values(), *pair.b.values()])


def _verdicts(both: _Ruled) -> list[str]:
    return [j.verdict for j in judge([c for c, _ in both], [r for _, r in both])]


def _changed(verdicts: Sequence[str]) -> int:
    return sum(verdict in CHANGED for verdict in verdicts)


def _share(count: Count) -> str:
    return f"{count.hit} of {count.total} ({percent(count.share)})"
