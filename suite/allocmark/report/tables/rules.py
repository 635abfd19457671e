"""Section 3.5 as tables: each rule with its test and verdict; indicators scored as predictors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocmark.claims.core.claim import Judgement, Ruling
from allocmark.claims.core.evidence_collector import EvidenceCollector, MissingFigureError, Row
from allocmark.claims.shared import indicators
from allocmark.claims.shared.indicators import Indicator
from allocmark.report.document_table import (
    COMMAND,
    DOCUMENT,
    FIGURE,
    STATEMENT,
    VERDICT,
    command,
    figure_and_verdict,
    quoted,
)
from allocmark.schema.metrics import pressure
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Text

TITLE = Message("3.5 The diagnostic rules")
ORDER = 70
OF_DOCUMENT = True
_RULES = "document-rules"
_SCORES = "rule-scores"
_RULE_COLUMNS = (
    Message("rule"),
    DOCUMENT,
    STATEMENT,
    Message("as tested"),
    FIGURE,
    VERDICT,
    COMMAND,
)
TESTED: tuple[tuple[str, str, Message], ...] = (
    (
        "ctx-multiple",
        "stray",
        Message("device memory of a call's context on a GPU it does not use"),
    ),
    (
        "rule-difference",
        "wrong",
        Message("max |reserved - allocated - free blocks of memory_snapshot()| = 0"),
    ),
    (
        "rule-30",
        "split",
        Message(
            "where (reserved - allocated) / reserved > 30 % and reserved >= 25 % of the capacity: "
            "inactive split / (reserved - allocated) >= 50 %, median of workloads"
        ),
    ),
    (
        "rule-version",
        "read",
        Message("the first release whose memory_stats() has the key is 1.9"),
    ),
    (
        "rule-retries",
        "rule_precision",
        Message(
            "num_alloc_retries > 0 before the failure: precision >= 75 % and recall >= 50 %; and "
            "more retries in the failed run of most pairs"
        ),
    ),
    (
        "most-oom",
        "enough",
        Message(
            "cached + free on the device >= request, in most avoidable failures; and each rule's "
            "precision >= 1.5 times the base rate"
        ),
    ),
    (
        "not-size",
        "share",
        Message("failures of the default settings that another setting avoids >= 1/3"),
    ),
)
_ABOUT_RULES = Message(
    "Each rule of the source document, the condition by which it is judged, the deciding figure, "
    "and the verdict. An interval is of 95 % over workloads; where the limit lies "
    "within it, the verdict is undecided."
)
_COLUMNS = (
    Message("indicator"),
    Message("runs"),
    Message("failed (base rate)"),
    Message("runs with the indicator"),
    Message("precision"),
    Message("recall"),
    Message("lead"),
    Message("verdict"),
)
_NO_LEAD = Message("when the indicator was first seen is not in this record")
_READ_ONCE = Message("it is read once, 100 events before the end")
_LAST = (pressure.CACHE_SHARE_LAST_BEFORE, pressure.RESERVED_SHARE_LAST_BEFORE)
_ABOUT = Message(
    "One run is a workload under one setting in 1.0 to 2.0 times its live peak. Scored are the "
    "capacities of each workload in which one setting completes and another fails; every workload "
    "weighs the same. An indicator counts if it was seen at least 100 events before the failed "
    "allocation; a run that fails earlier counts as missed. Precision: failures among the runs "
    "with the indicator; recall: failures that it preceded; lead: events from the first reading "
    "with it to the failure, median. Holds from a precision of 75 % and a recall of 50 % on; does "
    "not hold below 1.5 times the base rate; undecided where the 95 % interval over workloads has "
    "both sides. The last two lines are scored on the same runs, of workloads that the rule was "
    "not tuned on. In expandable segments torch counts no inactive split bytes: of runs under "
    "them, what cannot be released is allocated bytes alone."
)
_LINES = (
    (Message("cache above 30 %, with a quarter of the capacity reserved"), indicators.RULE_30),
    (Message("cache above 30 %, last reading"), indicators.RULE_30_LAST),
    (Message("num_alloc_retries above 0"), indicators.RULE_RETRIES),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the rules with their verdicts, and the scores where runs were made."""
    by_id = {one.claim.id: one for one in judged}
    rules = Table(
        _RULES,
        Message("Each diagnostic rule, and how it was tested"),
        _RULE_COLUMNS,
        tuple(_rule(by_id[claim], name, tested) for claim, name, tested in TESTED),
        _ABOUT_RULES,
        leading=True,
    )
    evidence = EvidenceCollector(panel)
    try:
        runs = indicators.contested(evidence)
    except MissingFigureError:
        return [rules]
    lines = [_line(evidence, words, indicator) for words, indicator in _LINES]
    lines += _tuned(evidence, runs)
    title = Message("How well each indicator predicts")
    return [rules, Table(_SCORES, title, _COLUMNS, tuple(lines), _ABOUT)]


def _rule(judged: Judgement, name: str, tested: Message) -> tuple[Cell, ...]:
    return (
        label(judged.claim.id),
        label(quoted(judged.claim.id, name)),
        label(judged.claim.statement),
        label(tested),
        *figure_and_verdict(judged, name),
        command(judged),
    )


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
        "tuned rule (held-out workloads): {name}, above {above}",
        name=name,
        above=above,
    )
    old = Message("cache above 30 %, with a quarter of the capacity reserved, on the same runs")
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
        indicators.base_rate(own, scored)
        ruling = indicators.score(own, "indicator", indicator, scored)
        has_lead = indicators.lead(own, indicator, scored)
    except MissingFigureError as missing:
        gaps = [empty(missing.reason)] * (len(_COLUMNS) - 2)
        return (label(words), *gaps, label(Ruling.NOT_MEASURED.words))
    found = {each.name: each.cell for each in own.collected}
    return (
        label(words),
        found["runs"],
        found["base"],
        found["indicator_shown"],
        found.get("indicator_precision", empty(Message("no run had it"))),
        found["indicator_recall"],
        found["lead"] if has_lead else empty(_no_lead(indicator)),
        label(ruling.words),
    )


def _no_lead(indicator: Indicator) -> Text:
    return _READ_ONCE if indicator.metric in _LAST else _NO_LEAD
