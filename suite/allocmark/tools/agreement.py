"""Whether two runs in a row agree: ``allocmark dev agreement RESULTS_A RESULTS_B``.

Not whether anything changed, which is `allocmark.compare`: that asks what runs differ by, this how
still a machine holds.

Exact figures must be equal; times must be near where their intervals say that they are settled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.compare.pairing import FigurePair, figure_pairs
from allocmark.compare.run_set import paired, read_run_set
from allocmark.schema.figure import Figure
from allocmark.schema.flags import WIDE_SHARE
from allocmark.store.number_text import format_value
from allocmark.system.errors import EXIT_FINE, EXIT_REGRESSION
from allocmark.system.printable import visible

NEAR = 0.05
"""Two medians agree if they differ by at most this share of the first."""
LEAST_NEAR = 0.95
MEDIAN_OF_HITS = "call_ns"
"""The metric of hits that is a median; their tail is another, and less settled by nature."""
LEAST_SETTLED = 0.80


@dataclass(frozen=True, slots=True)
class Share:
    """Which of some figures do what they should, and what share of them must."""

    what: str
    figures: Sequence[bool]
    least: float

    @property
    def met(self) -> bool:
        """Whether enough do; nothing to compare is not enough."""
        return bool(self.figures) and sum(self.figures) >= self.least * len(self.figures)

    def sentence(self) -> str:
        """Return one line for people."""
        good, total = sum(self.figures), len(self.figures)
        percent = f"{good / total:.1%}" if total else "nothing to compare"
        verdict = "met" if self.met else "not met"
        return f"{self.what}: {good} of {total} ({percent}; at least {self.least:.0%}: {verdict})"


@dataclass(frozen=True, slots=True)
class MatchedFigures:
    """One figure of both runs: which kind it is, and by how much its values differ."""

    figures: FigurePair
    a: Figure
    b: Figure

    @property
    def exact(self) -> bool:
        """Whether it is counted."""
        return self.a.kind == "exact"

    @property
    def hit(self) -> bool:
        """Whether it is the median time of a hit."""
        is_median = self.a.kind == "time" and self.a.metric == MEDIAN_OF_HITS
        return is_median and self.a.axes.get("path") == "hit"

    @property
    def should_settle(self) -> bool:
        """Whether its interval should be narrow."""
        return self.hit or (self.figures.key.document.probe == "context" and not self.exact)

    @property
    def difference(self) -> float:
        """The share of the first value, infinite where that is 0 and the other is not."""
        a, b = self.a.value or 0.0, self.b.value or 0.0
        if a == b:
            return 0.0
        return abs(b - a) / abs(a) if a else math.inf

    @property
    def settled(self) -> bool:
        """Whether its interval is narrow in both runs."""
        return max(_spread(self.a), _spread(self.b)) <= WIDE_SHARE

    @property
    def near(self) -> bool:
        """Whether its values are near each other."""
        return self.difference <= NEAR

    def sentence(self) -> str:
        """Return one line for people."""
        widths = (_spread(self.a), _spread(self.b))
        spreads = " and ".join("no interval" if math.isinf(w) else f"{w:.1%}" for w in widths)
        a, b = (format_value(figure.value or 0.0, self.a.unit) for figure in (self.a, self.b))
        place = visible(self.figures.figure_id)
        return f"{self.difference:.1%}  {a} and {b} (spread {spreads})  {place}"


@dataclass(frozen=True)
class Agreement:
    """The shares, every figure that does not agree, and places that one run alone has measured."""

    shares: tuple[Share, ...]
    different: tuple[MatchedFigures, ...]
    only_one: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 where every share is met, else 1."""
        return EXIT_FINE if all(share.met for share in self.shares) else EXIT_REGRESSION


def compare(a: Path, b: Path) -> Agreement:
    """Compare two results folders figure by figure. Raises `AllocmarkError` if one is empty."""
    both, single = figure_pairs(paired(read_run_set(str(a), a), read_run_set(str(b), b)))
    pairs = [MatchedFigures(c, next(iter(c.a.values())), next(iter(c.b.values()))) for c in both]
    times = [pair for pair in pairs if pair.a.kind == "time"]
    equal = [not pair.difference for pair in pairs if pair.exact]
    settled = [pair.near for pair in times if pair.settled]
    should = [pair.settled for pair in pairs if pair.should_settle]
    shares = (
        Share("bytes and counts that are exact, equal", equal, 1.0),
        Share(f"hits within {NEAR:.0%}", [pair.near for pair in pairs if pair.hit], LEAST_NEAR),
        Share(f"settled times within {NEAR:.0%}", settled, LEAST_NEAR),
        Share("hit and context figures that are settled", should, LEAST_SETTLED),
    )
    off = [p for p in pairs if p.exact and p.difference] + [p for p in times if not p.near]
    off.sort(key=lambda pair: (-pair.difference, pair.figures.figure_id))
    return Agreement(shares, tuple(off), tuple(unpaired.figure_id for unpaired in single))


def _spread(figure: Figure) -> float:
    """Return the width of the interval as a share of the value, infinite without one."""
    if figure.value == 0:
        return 0.0
    if figure.interval is None or figure.value is None:
        return math.inf
    return (figure.interval[1] - figure.interval[0]) / abs(figure.value)


def text(found: Agreement) -> str:
    """Return the shares, then every figure that differs, with its spread in both runs."""
    lines = [share.sentence() for share in found.shares]
    if found.different:
        lines += ["", f"{len(found.different)} figures do not agree:"]
        lines += [f"  {difference.sentence()}" for difference in found.different]
    if found.only_one:
        lines += ["", f"{len(found.only_one)} figures are in one run only:"]
        lines += [f"  {visible(place)}" for place in found.only_one]
    return "\n".join(lines)
