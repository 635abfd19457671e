"""Section 3.5 as a table: the diagnostic rules scored as predictors of a failed allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocmark.claims.core.claim import Judgement, Ruling
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.shared import indicators
from allocmark.claims.shared.indicators import Indicator
from allocmark.schema.metrics import pressure
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Text

TITLE = Message("3.5 The diagnostic rules as predictors")
ORDER = 70
OF_DOCUMENT = True
_COLUMNS = (
    Message("rule"),
    Message("runs"),
    Message("failed (base rate)"),
    Message("showed the sign"),
    Message("precision"),
    Message("recall"),
    Message("lead"),
    Message("verdict"),
)
_CONTEXTS = Message("several contexts at a few hundred MB")
_ALWAYS = Message("a neighbour process is there in every run: the sign tells no two runs apart")
_NO_LEAD = Message("when the sign was first seen is not in this record")
_READ_ONCE = Message("it is read once, 100 events before the end")
_LAST = (pressure.CACHE_SHARE_LAST_BEFORE, pressure.RESERVED_SHARE_LAST_BEFORE)
_ABOUT = Message(
    "One run is a workload under one setting in 1.0 to 2.0 times its live peak, in steps of 0.1. "
    "A sign counts if it was seen at least 100 events before the failed allocation; a run that "
    "fails earlier counts as missed. Precision: "
    "failures among the runs that showed it; recall: failures that it announced; lead: events "
    "from the first sign to the failure, median. Verdict: holds from a precision of 75 % and a "
    "recall of 50 % on; does not hold below 1.5 times the base rate. The last two lines are scored "
    "on the same runs, of workloads that the rule was not tuned on. In expandable segments torch "
    "counts no inactive split bytes: of runs under them, what cannot be given back is live blocks "
    "alone."
)
_LINES = (
    (Message("cache above 30 %, ever"), indicators.RULE_30),
    (Message("cache above 30 %, last reading"), indicators.RULE_30_LAST),
    (Message("num_alloc_retries above 0"), indicators.RULE_RETRIES),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the table of scores, nothing where no run was made."""
    evidence = EvidenceCollector(panel)
    try:
        runs = indicators.completed(evidence)
    except MissingFigureError:
        return []
    by_id = {one.claim.id: one for one in judged}
    lines = [_contexts(by_id["ctx-multiple"])]
    lines += [_line(evidence, words, indicator) for words, indicator in _LINES]
    lines += _tuned(evidence, runs)
    table = Table(
        "document-rules", Message("How well each rule predicts"), _COLUMNS, tuple(lines), _ABOUT
    )
    return [table]


def _contexts(judged: Judgement) -> tuple[Cell, ...]:
    verdict = label(judged.verdict.ruling.words)
    return (label(_CONTEXTS), *[empty(_ALWAYS)] * (len(_COLUMNS) - 2), verdict)


def _tuned(evidence: EvidenceCollector, runs: Sequence[Row]) -> list[tuple[Cell, ...]]:
    """Return the lines of a rule chosen on one half of the workloads: on the other half, beside
    the 30 % rule there."""
    try:
        _, test = indicators.halves(runs)
        indicator = indicators.tuned(evidence)
    except MissingFigureError as missing:
        words = Message("a rule tuned on half of the workloads")
        gaps = [empty(missing.reason)] * (len(_COLUMNS) - 2)
        return [(label(words), *gaps, label(Ruling.NOT_MEASURED.words))]
    name = indicators.CANDIDATES[indicator.metric]
    above = (
        f"{indicator.above:.0%}".replace("%", " %")
        if indicator.metric != pressure.RETRIES_BEFORE
        else f"{indicator.above:g}"
    )
    best = Message(
        "tuned on half of the workloads, scored on the other: {name}, above {above}",
        name=name,
        above=above,
    )
    old = Message("cache above 30 %, ever, on the same runs")
    readings = indicators.readings(evidence, indicator.metric)

    def kept(row: Row) -> bool:
        return str(row["workload"]) in test and indicators.run_key(row) in readings

    return [_line(evidence, best, indicator, kept), _line(evidence, old, indicators.RULE_30, kept)]


def _line(
    evidence: EvidenceCollector,
    words: Text,
    indicator: Indicator,
    kept: Callable[[Row], bool] = lambda row: True,
) -> tuple[Cell, ...]:
    own = evidence.fresh()
    try:
        scored = indicators.runs_with(own, indicator, kept)
        own.count("runs", Message("runs"), [run for run, _ in scored], "runs")
        base = indicators.base_rate(own, scored)
        precision, recall = indicators.score(own, "indicator", indicator, scored)
        has_lead = indicators.lead(own, indicator, scored)
    except MissingFigureError as missing:
        gaps = [empty(missing.reason)] * (len(_COLUMNS) - 2)
        return (label(words), *gaps, label(Ruling.NOT_MEASURED.words))
    found = {each.name: each.cell for each in own.collected}
    nobody = empty(Message("no run showed it"))
    return (
        label(words),
        found["runs"],
        found["base"],
        found["indicator_shown"],
        found.get("indicator_precision", nobody),
        found["indicator_recall"],
        found["lead"] if has_lead else empty(_no_lead(indicator)),
        label(indicators.ruling(precision, recall, base).words),
    )


def _no_lead(indicator: Indicator) -> Text:
    return _READ_ONCE if indicator.metric in _LAST else _NO_LEAD
