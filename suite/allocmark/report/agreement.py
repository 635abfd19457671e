"""Whether two runs in a row agree: ``python -m allocmark.report.agreement RESULTS_A RESULTS_B``.

Exact figures must be equal; times must be near where their intervals say that they are settled.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from allocmark.errors import EXIT_BAD_INPUT, EXIT_FINE, EXIT_REGRESSION, AllocmarkError
from allocmark.report.escape import visible
from allocmark.report.numbers import format_value
from allocmark.statistics import WIDE_INTERVAL
from allocmark.store import DOCUMENT_COLUMNS, FIXED_COLUMNS, load

NEAR = 0.05
"""Two medians agree if they differ by at most this share of the first."""
LEAST_NEAR = 0.95
MEDIAN_OF_HITS = "call_ns"
"""The metric of hits that is a median; their tail is another, and less settled by nature."""
LEAST_SETTLED = 0.80


@dataclass(frozen=True, slots=True)
class Share:
    """How many of some figures do what they should, and how many must."""

    what: str
    good: int
    total: int
    least: float

    @property
    def met(self) -> bool:
        """Whether enough do; nothing to compare is not enough."""
        return self.total > 0 and self.good >= self.least * self.total

    def sentence(self) -> str:
        """Return one line for people."""
        percent = f"{self.good / self.total:.1%}" if self.total else "nothing to compare"
        verdict = "met" if self.met else "not met"
        counts = f"{self.good} of {self.total} ({percent}; at least {self.least:.0%}"
        return f"{self.what}: {counts}: {verdict})"


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure that does not agree: its values, and the width of its interval in both runs."""

    place: str
    unit: str
    a: float
    b: float
    share: float
    spread_a: float
    spread_b: float

    def sentence(self) -> str:
        """Return one line for people."""
        spreads = " and ".join(
            "no interval" if math.isnan(spread) else f"{spread:.1%}"
            for spread in (self.spread_a, self.spread_b)
        )
        return (
            f"{self.share:.1%}  {format_value(self.a, self.unit)} and "
            f"{format_value(self.b, self.unit)} (spread {spreads})  {visible(self.place)}"
        )


@dataclass(frozen=True)
class Agreement:
    """The shares asked for, and every figure that does not agree."""

    shares: tuple[Share, ...]
    different: tuple[Difference, ...]
    only_one: tuple[str, ...]
    """Places measured in one run and not in the other."""

    @property
    def met(self) -> bool:
        """Whether every share is."""
        return all(share.met for share in self.shares)


def compare(a: Path, b: Path) -> Agreement:
    """Compare two results folders figure by figure. Raises `AllocmarkError` if one is empty."""
    first, second = (_placed(load(root).figures) for root in (a, b))
    joined = first.add_suffix("_a").join(second.add_suffix("_b"), how="outer")
    has_a, has_b = joined["value_a"].notna(), joined["value_b"].notna()
    both = joined[has_a & has_b].copy()
    both["difference"] = (both["value_b"] - both["value_a"]).abs() / both["value_a"].abs()
    both.loc[both["value_a"] == both["value_b"], "difference"] = 0.0
    exact = both["kind_a"] == "exact"
    timed = both["kind_a"] == "time"
    settled = (both["spread_a"] <= WIDE_INTERVAL) & (both["spread_b"] <= WIDE_INTERVAL)
    near = both["difference"] <= NEAR
    hit, context = both["hit_a"], both["probe_a"] == "context"
    asked = (timed & hit) | (context & ~exact)
    shares = (
        _share("bytes and counts that are exact, equal", both["difference"] == 0, exact, 1.0),
        _share(f"hits within {NEAR:.0%}", near, timed & hit, LEAST_NEAR),
        _share(f"settled times within {NEAR:.0%}", near, timed & settled, LEAST_NEAR),
        _share("hit and context figures that are settled", settled, asked, LEAST_SETTLED),
    )
    off = both[(exact & (both["difference"] != 0)) | (timed & ~near)]
    return Agreement(shares, _listed(off), tuple(joined.index[has_a != has_b]))


def _placed(figures: pd.DataFrame) -> pd.DataFrame:
    """Return the columns compared, indexed by where each figure belongs."""
    axes = [name for name in figures.columns if name not in FIXED_COLUMNS]
    where = [name for name in DOCUMENT_COLUMNS if name not in ("run", "emulated")]
    where += ["metric", "meter", *axes]
    # A meter of times names its batch, which is fitted to the machine as it is at the moment.
    named = figures[where].astype(object)
    named.loc[figures["kind"] == "time", "meter"] = math.nan
    texts = [
        " ".join(
            f"{name}={value:.12g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in zip(where, row, strict=True)
            if not (isinstance(value, float) and math.isnan(value))
        )
        for row in named.itertuples(index=False)
    ]
    if "path" in figures:
        hit = (figures["path"] == "hit") & (figures["metric"] == MEDIAN_OF_HITS)
    else:
        hit = pd.Series(False, figures.index)
    width = (figures["high"] - figures["low"]) / figures["value"].abs()
    return pd.DataFrame(
        {
            "probe": figures["probe"].astype(object),
            "kind": figures["kind"].astype(object),
            "unit": figures["unit"].astype(object),
            "value": figures["value"],
            "spread": width.where(figures["value"] != 0, 0.0),
            "hit": hit,
        }
    ).set_axis(texts)


def _share(what: str, good: pd.Series, among: pd.Series, least: float) -> Share:
    return Share(what, int((good & among).sum()), int(among.sum()), least)


def _listed(off: pd.DataFrame) -> tuple[Difference, ...]:
    columns = ["unit_a", "value_a", "value_b", "difference", "spread_a", "spread_b"]
    found = [
        Difference(str(place), *row)
        for place, row in zip(off.index, off[columns].itertuples(index=False), strict=True)
    ]
    return tuple(sorted(found, key=lambda difference: (-difference.share, difference.place)))


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


def main(arguments: Sequence[str]) -> int:
    """Compare and print; returns 0 if every share is met, 1 if not, 2 for bad input."""
    try:
        first, second = map(Path, arguments)
    except ValueError:
        print("usage: python -m allocmark.report.agreement RESULTS_A RESULTS_B", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        found = compare(first, second)
    except AllocmarkError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(text(found))
    return EXIT_FINE if found.met else EXIT_REGRESSION


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
