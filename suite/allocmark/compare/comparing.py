"""From two sides to a comparison: what belongs together, its verdicts, what differs beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median, median_high, median_low

from allocmark.compare import environment, means
from allocmark.compare.judging import Judged, judge
from allocmark.compare.model import Comparison, Missing, Row, SideFacts
from allocmark.compare.pairing import DISTURBED, Couple, Single, couples
from allocmark.compare.readings import as_read, is_exact
from allocmark.compare.run_set import Pair, Side, paired, read_both
from allocmark.compare.thresholds import Rule, Thresholds, load
from allocmark.system.errors import AllocmarkError
from allocmark.system.garbage import no_garbage_collection

_ONE_EACH = 2


def compare(
    a: str, b: str, results: Path = Path("results"), thresholds: Path | None = None
) -> Comparison:
    """Compare two stacks, result files or folders, as `sides.read_side` takes them.

    Raises `AllocmarkError` where one is empty or they share no figure.
    """
    with no_garbage_collection():
        pair = paired(*read_both(a, b, results))
        return compare_pair(pair, load(thresholds))


def compare_pair(pair: Pair, thresholds: Thresholds) -> Comparison:
    """Compare two sides. Raises `AllocmarkError` where they share no figure."""
    both, single = couples(pair)
    if not both:
        raise AllocmarkError(f"the two share no figure: {_why(pair)}")
    rules = [thresholds.of(couple.place) for couple in both]
    kept = [(as_read(c, r), r) for c, r in zip(both, rules, strict=True) if not r.ignore]
    judged = judge([c for c, _ in kept], [r for _, r in kept])
    rows = tuple(_row(c, r, j) for (c, r), j in zip(kept, judged, strict=True))
    return Comparison(
        _facts(pair.a),
        _facts(pair.b),
        pair.study,
        environment.warnings(pair.a, pair.b),
        environment.changes(pair.a, pair.b),
        rows,
        tuple(_missing(single, thresholds)),
        means.judged(kept),
    )


def _row(couple: Couple, rule: Rule, judged: Judged) -> Row:
    key, document = couple.key, couple.source.document
    a, b = median(couple.values_a), median(couple.values_b)
    ratio = b / a if a > 0 and b > 0 else None
    if judged.low is not None and len(couple.values_a) + len(couple.values_b) > _ONE_EACH:
        # Where the middle is between two, it is halfway in logarithms, as the interval is.
        ratios = [other / one for other in couple.values_b for one in couple.values_a]
        ratio = math.sqrt(median_low(ratios) * median_high(ratios))
    return Row(
        couple.source.machine, key.home.profile, key.home.probe, key.home.subject, key.metric,
        next(iter(couple.b.values())).unit, dict(sorted(key.axes)), rule.group, rule.least,
        is_exact(couple), rule.reading, document.emulated, a, b, ratio, judged.low, judged.high,
        judged.q, judged.verdict, _note(couple, judged), judged.open, document.command,
        couple.line,
    )  # fmt: skip


def _note(couple: Couple, judged: Judged) -> str:
    """Return the note; a difference is to be read with what disturbed the core of a side."""
    if judged.verdict == "same":
        return judged.note
    noisy = [
        letter
        for letter, side in (("A", couple.a), ("B", couple.b))
        if any(DISTURBED in figure.flags for figure in side.values())
    ]
    return f"{judged.note}; noisy-cpu in {' and '.join(noisy)}" if noisy else judged.note


def _missing(single: Sequence[Single], thresholds: Thresholds) -> list[Missing]:
    return [
        Missing(one.place, "a" if one.only == "a" else "b", one.reason, one.line)
        for one in single
        if not thresholds.of(one.place).ignore
    ]


def _facts(side: Side) -> SideFacts:
    stacks = sorted({f"{source.machine}/{source.stack}" for source in side.sources})
    runs = sorted({source.document.run for source in side.sources})
    return SideFacts(side.label, tuple(stacks), tuple(runs), len(side.sources))


def _why(pair: Pair) -> str:
    told = []
    for letter, side in (("A", pair.a), ("B", pair.b)):
        lines = sorted({" ".join(source.line) for source in side.sources})
        probes = sorted({source.document.probe for source in side.sources})
        told.append(f"{letter} has {', '.join(probes)} of {', '.join(lines)}")
    return f"{'; '.join(told)}: compare the same profile and experiments"
