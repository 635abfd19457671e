"""What the means find and what they imagine: the same dealing, with steps in whole pools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import get_args

import numpy as np

from allocmark.compare import means
from allocmark.compare.model import Scope
from allocmark.tools.counts import CHANGED, SHARE, STEPS, Group, percent

Tallies = defaultdict[tuple[Scope, str], Group]


def add(
    tallies: Tallies, kept: means.Kept, steps: Sequence[float], generator: np.random.Generator
) -> None:
    """Count what is said of the means as they are, and with each step in a third of a scope."""
    times = means.timed(kept)
    if times is None:
        return
    by = means.pools(times, "allocator")
    for scope in get_args(Scope):
        found = by if scope == "allocator" else means.pools(times, scope)
        for mean in means.judge(found, by):
            tallies[scope, mean.group].alarms.add(mean.verdict in CHANGED, 1)
        size = len(found.keys)
        for step in steps:
            hit = np.zeros(size, dtype=bool)
            hit[generator.permutation(size)[: -(-size // SHARE)]] = True
            changed = means.stepped(found, np.flatnonzero(hit), step)
            for mean, planted, rule in zip(means.judge(changed, by), hit, found.rules, strict=True):
                group = tallies[scope, mean.group]
                if planted:
                    group.judge(mean.verdict, rule.better, step)
                else:
                    group.beside.add(mean.verdict in CHANGED, 1)


def text(tallies: Tallies) -> list[str]:
    """Return the table of the means as lines."""
    heads = "".join(f"{percent(step):>9}" for step in STEPS)
    lines = [f"  {'means of':28}{'scope':>10}{'false':>16}{'beside':>9}{heads}{'smallest':>10}"]
    for (scope, name), group in sorted(tallies.items(), key=lambda item: item[0][::-1]):
        found = group.shares(STEPS)
        alarms = f"{group.alarms.hit} of {group.alarms.total}"
        lines.append(
            f"  {name:28}{scope:>10}{alarms:>16}{percent(group.beside.share):>9}{found}"
            f"{percent(group.smallest()):>10}"
        )
    return lines
