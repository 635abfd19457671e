"""What a search for odd machines says, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from allocmark.compare.model import Verdict

Scope = Literal["figure", "exact", "allocator", "all"]
"""A single figure; one that is compared by equality; the mean of the times of a group that one
allocator has; that of all allocators."""
SCOPES: tuple[Scope, ...] = ("exact", "all", "allocator", "figure")
"""In the order in which they are told."""
NAMING: tuple[Verdict, ...] = ("worse", "better", "changed")
"""Verdicts by which a machine is the odd one."""
MOST_ODD = 200
"""So many odd figures of a machine are kept one by one."""


@dataclass(frozen=True, slots=True)
class Odd:
    """One figure or mean in which a machine is not like the others.

    `value` is the machine's, `others` that of the machine in the middle of the others (exact: what
    most have); of means both are ratios to the fleet's. `ratio` is the one over the other, `low`
    and `high` its 95 % interval (None for exact ones and where a value is 0), `q` the probability
    of a false alarm after the correction for all figures and machines. `strip` are all machines'
    values in the order of `Kind.machines`, NaN where one has none.
    """

    name: str
    scope: Scope
    group: str
    unit: str
    value: float
    others: float
    ratio: float | None
    low: float | None
    high: float | None
    q: float | None
    verdict: Verdict
    note: str
    command: str
    strip: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of a machine's stack or host that most of the others have otherwise."""

    name: str
    value: str
    others: str


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine; `missing` counts the figures that it lacks and most others have.

    `odd` is what is not like the others, the worst first, and at most `MOST_ODD`; `verdicts` counts
    all of it, and what is unclear.
    """

    name: str
    runs: int
    odd: tuple[Odd, ...]
    verdicts: Mapping[Verdict, int]
    facts: tuple[Fact, ...]
    missing: int
    missing_reason: str

    @property
    def is_named(self) -> bool:
        """Whether it is an odd one."""
        return any(self.verdicts[verdict] for verdict in NAMING)


@dataclass(frozen=True, slots=True)
class Kind:
    """Machines that can be told apart only by what is wrong with one: same GPU, profile, framework.

    `machines` are the odd ones first, worst first. `without_majority` counts exact figures of which
    no value is that of most machines.
    """

    gpu: str
    profile: str
    framework: str
    emulated: bool
    figures: int
    runs: int
    without_majority: int
    machines: tuple[Machine, ...]

    @property
    def name(self) -> str:
        """The kind in words."""
        return f"{self.gpu}, {self.framework}, {self.profile}"

    @property
    def named(self) -> Sequence[Machine]:
        """The odd ones, the worst first."""
        return [machine for machine in self.machines if machine.is_named]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All kinds that have several machines; `alone` names what has no equals, and why.

    `left_out` says which runs cannot be read.
    """

    kinds: tuple[Kind, ...]
    alone: tuple[str, ...]
    left_out: tuple[str, ...] = ()
