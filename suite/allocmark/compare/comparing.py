"""From two sides to a comparison: what belongs together, its verdicts, what differs beside it."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median, median_high, median_low

from allocmark.compare import environment, means
from allocmark.compare.judging import Judgement, judge
from allocmark.compare.model import Comparison, Row, RunSetFacts
from allocmark.compare.pairing import FigurePair, figure_pairs
from allocmark.compare.readings import as_read, is_exact
from allocmark.compare.run_set import RunSet, RunSetPair, paired, read_both
from allocmark.compare.thresholds import Rule, Thresholds, load
from allocmark.schema.flags import NOISY_CPU
from allocmark.system.errors import AllocmarkError
from allocmark.system.garbage import no_garbage_collection

_ONE_EACH = 2


def compare(
    a: str, b: str, results: Path = Path("results"), thresholds: Path | None = None
) -> Comparison:
    """Compare two stacks, result files or folders, as `read_run_set` takes them.

    Raises `AllocmarkError` where one is empty or they share no figure.
    """
    with no_garbage_collection():
        return compare_pair(paired(*read_both(a, b, results)), load(thresholds))


def compare_pair(sets: RunSetPair, thresholds: Thresholds) -> Comparison:
    """Compare two run sets. Raises `AllocmarkError` where they share no figure."""
    both, unpaired = figure_pairs(sets)
    if not both:
        raise AllocmarkError(f"the two share no figure: {_why(sets)}")
    rules = [thresholds.of(pair.figure_id) for pair in both]
    kept = [(as_read(p, r), r) for p, r in zip(both, rules, strict=True) if not r.ignore]
    judgements = judge([p for p, _ in kept], [r for _, r in kept])
    return Comparison(
        a=_facts(sets.a),
        b=_facts(sets.b),
        study=sets.study,
        warnings=environment.warnings(sets.a, sets.b),
        environment=environment.changes(sets.a, sets.b),
        rows=tuple(_row(p, r, j) for (p, r), j in zip(kept, judgements, strict=True)),
        missing=tuple(one for one in unpaired if not thresholds.of(one.figure_id).ignore),
        means=means.judged(kept),
    )


def _row(pair: FigurePair, rule: Rule, judgement: Judgement) -> Row:
    key, document = pair.key, pair.source.document
    a, b = median(pair.values_a), median(pair.values_b)
    ratio = b / a if a > 0 and b > 0 else None
    if judgement.low is not None and len(pair.values_a) + len(pair.values_b) > _ONE_EACH:
        # Where the middle is between two, it is halfway in logarithms, as the interval is.
        ratios = [b_value / a_value for b_value in pair.values_b for a_value in pair.values_a]
        ratio = math.sqrt(median_low(ratios) * median_high(ratios))
    return Row(
        machine=pair.source.machine,
        profile=key.document.profile,
        probe=key.document.probe,
        subject=key.document.subject,
        metric=key.metric,
        unit=next(iter(pair.b.values())).unit,
        axes=dict(sorted(key.axes)),
        group=rule.group,
        least=rule.least,
        exact=is_exact(pair),
        reading=rule.reading,
        emulated=document.emulated,
        a=a,
        b=b,
        ratio=ratio,
        command=document.command,
        series_id=pair.series_id,
        **judgement._replace(note=_note(pair, judgement))._asdict(),
    )


def _note(pair: FigurePair, judgement: Judgement) -> str:
    """Return the note; a difference is to be read with what disturbed the core of a side."""
    if judgement.verdict == "same":
        return judgement.note
    noisy = [
        letter
        for letter, side in (("A", pair.a), ("B", pair.b))
        if any(NOISY_CPU in figure.flags for figure in side.values())
    ]
    return f"{judgement.note}; {NOISY_CPU} in {' and '.join(noisy)}" if noisy else judgement.note


def _facts(one: RunSet) -> RunSetFacts:
    stacks = sorted({f"{source.machine}/{source.stack}" for source in one.sources})
    runs = sorted({source.document.run for source in one.sources})
    return RunSetFacts(one.label, tuple(stacks), tuple(runs), len(one.sources))


def _why(sets: RunSetPair) -> str:
    parts = []
    for letter, one in (("A", sets.a), ("B", sets.b)):
        series = sorted({" ".join(source.series_id) for source in one.sources})
        probes = sorted({source.document.probe for source in one.sources})
        parts.append(f"{letter} has {', '.join(probes)} of {', '.join(series)}")
    machines = [{source.machine for source in one.sources} for one in (sets.a, sets.b)]
    if not machines[0] & machines[1]:
        return f"{'; '.join(parts)}: `allocmark fleet` holds many machines against each other"
    return f"{'; '.join(parts)}: compare the same profile and experiments"
