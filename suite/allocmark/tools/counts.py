"""What a simulation counts: alarms without a cause, steps found, the smallest one found."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

STEPS = (0.03, 0.05, 0.07, 0.10, 0.15, 0.20, 0.30)
FOUND = 0.95
SHARE = 3
"""One of so many figures of a group gets a step."""
CHANGED = ("worse", "better", "changed")


@dataclass(slots=True)
class Count:
    """So many of so many."""

    hit: int = 0
    total: int = 0

    def add(self, hit: int, total: int) -> None:
        """Count further ones."""
        self.hit += hit
        self.total += total

    @property
    def share(self) -> float:
        """The share, nan where nothing was counted."""
        return self.hit / self.total if self.total else math.nan


@dataclass
class Group:
    """What happened to the figures of one group; `found` is by step."""

    alarms: Count = field(default_factory=Count)
    found: defaultdict[float, Count] = field(default_factory=lambda: defaultdict(Count))
    found_together: defaultdict[float, Count] = field(default_factory=lambda: defaultdict(Count))
    beside: Count = field(default_factory=Count)
    """Figures without a step that were called changed while others had one."""
    wrong_side: int = 0

    def judge(self, verdict: str, better: str | None, step: float, together: bool = False) -> None:
        """Count what is said of a figure that got worse by a step."""
        is_wrong = verdict == ("better" if better == "less" else "worse")
        found = self.found_together if together else self.found
        found[step].add(verdict in CHANGED and not is_wrong, 1)
        self.wrong_side += is_wrong

    def shares(self, steps: Sequence[float]) -> str:
        """Return the share of each of these steps that was found, in columns."""
        return "".join(f"{percent(self.found.get(step, Count()).share):>9}" for step in steps)

    def smallest(self, together: bool = False) -> float:
        """Return the smallest step from which on 95 % are found, nan if there is none."""
        found = self.found_together if together else self.found
        least = math.nan
        for step in sorted(found, reverse=True):
            if found[step].share < FOUND:
                break
            least = step
        return least


def percent(share: float) -> str:
    """Return a share in percent, ``-`` where there is none."""
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"
