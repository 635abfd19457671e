"""Section 3.5 as a table: the diagnostic rules scored as predictors of a failed allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocmark.claims import scores
from allocmark.claims.case import Case, MissingFigureError, Row
from allocmark.claims.claim import Judged, Ruling
from allocmark.claims.scores import Sign
from allocmark.claims.text import Text as ClaimText
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
    (Message("cache above 30 %, ever"), scores.RULE_30),
    (Message("cache above 30 %, last reading"), scores.RULE_30_LAST),
    (Message("num_alloc_retries above 0"), scores.RULE_RETRIES),
)


def tables(panel: Panel, judged: Sequence[Judged]) -> list[Table]:
    """Return the table of scores, nothing where no run was made."""
    case = Case(panel)
    try:
        runs = scores.completed(case)
    except MissingFigureError:
        return []
    by_id = {one.claim.id: one for one in judged}
    lines = [_contexts(by_id["ctx-multiple"])]
    lines += [_line(case, words, sign) for words, sign in _LINES]
    lines += _tuned(case, runs)
    table = Table(
        "document-rules",
        Message("How well each rule predicts"),
        _COLUMNS,
        tuple(lines),
        _ABOUT,
        emulated=panel.emulated,
        whole=True,
        leading=True,
    )
    return [table]


def _contexts(judged: Judged) -> tuple[Cell, ...]:
    verdict = label(judged.verdict.ruling.words)
    return (label(_CONTEXTS), *[empty(_ALWAYS)] * (len(_COLUMNS) - 2), verdict)


def _tuned(case: Case, runs: Sequence[Row]) -> list[tuple[Cell, ...]]:
    """Return the lines of a rule chosen on one half of the workloads: on the other half, beside
    the 30 % rule there."""
    try:
        _, test = scores.halves(runs)
        sign = scores.tuned(case)
    except MissingFigureError as missing:
        words = Message("a rule tuned on half of the workloads")
        gaps = [empty(missing.reason)] * (len(_COLUMNS) - 2)
        return [(label(words), *gaps, label(Ruling.NOT_MEASURED.words))]
    name = scores.CANDIDATES[sign.metric]
    above = f"{sign.above:.0%}".replace("%", " %") if "share" in sign.metric else f"{sign.above:g}"
    best = Message(
        "tuned on half of the workloads, scored on the other: {name}, above {above}",
        name=name,
        above=above,
    )
    old = Message("cache above 30 %, ever, on the same runs")
    told = scores.readings(case, sign.metric)

    def kept(row: Row) -> bool:
        return str(row["workload"]) in test and scores.place(row) in told

    return [_line(case, best, sign, kept), _line(case, old, scores.RULE_30, kept)]


def _line(
    case: Case,
    words: Text,
    sign: Sign,
    kept: Callable[[Row], bool] = lambda row: True,
) -> tuple[Cell, ...]:
    one = case.apart()
    try:
        rows = scores.with_sign(one, sign, kept)
        one.work_out("runs", ClaimText("runs", "runs"), "count", rows[::2], "runs")
        base = scores.base_rate(one, "base", rows)
        ruling = scores.ruling(*scores.score(one, "sign", sign, rows), base)
        has_lead = scores.lead(one, "lead", sign, rows)
    except MissingFigureError as missing:
        gaps = [empty(missing.reason)] * (len(_COLUMNS) - 2)
        return (label(words), *gaps, label(Ruling.NOT_MEASURED.words))
    found = {evidence.name: evidence.cell for evidence in one.evidence}
    nobody = empty(Message("no run showed it"))
    return (
        label(words),
        found["runs"],
        found["base"],
        found["sign_shown"],
        found.get("sign_precision", nobody),
        found["sign_recall"],
        found["lead"] if has_lead else empty(_no_lead(sign)),
        label(ruling.words),
    )


def _no_lead(sign: Sign) -> Text:
    return _READ_ONCE if sign.metric.endswith("_last_before") else _NO_LEAD
