"""Section 3.5 as a table: the diagnostic rules scored as predictors of a failed allocation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from allocmark.claims import scores
from allocmark.claims.case import Case, MissingFigureError, Row
from allocmark.claims.claim import Judged, Ruling
from allocmark.claims.scores import Sign
from allocmark.claims.text import Text
from allocmark.report.tables.document import Said
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty

TITLE = Text("3.5 The diagnostic rules as predictors", "3.5 把诊断规则当作预测器")
_COLUMNS = (
    Text("rule", "规则"),
    Text("runs", "运行数"),
    Text("failed (base rate)", "失败（基准率）"),
    Text("showed the sign", "出现迹象"),
    Text("precision", "精确率"),
    Text("recall", "召回率"),
    Text("lead", "提前量"),
    Text("verdict", "结论"),
)
_CONTEXTS = Text("several contexts at a few hundred MB", "多个进程各占几百 MB")
_ALWAYS = Text(
    "a neighbour process is there in every run: the sign tells no two runs apart",
    "每次运行都有邻居进程：该迹象无法区分各次运行",
)
_NO_LEAD = Text(
    "when the sign was first seen is not in this record",
    "本记录没有首次出现迹象的时刻",
)
_READ_ONCE = Text("it is read once, 100 events before the end", "只在结束前 100 个事件处读一次")
_ABOUT = Text(
    "One run is a workload under one setting in 1.0 to 2.0 times its live peak, in steps of 0.1. "
    "A sign counts if it was seen at least 100 events before the failed allocation; a run that "
    "fails earlier counts as missed. Precision: "
    "failures among the runs that showed it; recall: failures that it announced; lead: events "
    "from the first sign to the failure, median. Verdict: holds from a precision of 75 % and a "
    "recall of 50 % on; does not hold below 1.5 times the base rate. The last two lines are scored "
    "on the same runs, of workloads that the rule was not tuned on. In expandable segments torch "
    "counts no inactive split bytes: of runs under them, what cannot be given back is live blocks "
    "alone.",
    "一次运行是一个负载在一种设置下、以活动峰值的 1.0 到 2.0 倍（步长 0.1）为容量。"
    "迹象须在失败的分配之前至少 100 个事件出现才算；更早失败的运行算作漏报。"
    "精确率：出现迹象的运行中失败的比例；召回率：被预示的失败比例；提前量：首次出现到失败的事件数，中位数。"
    "结论：精确率达 75% 且召回率达 50% 为成立；精确率低于基准率的 1.5 倍为不成立。"
    "最后两行在同样的运行上评分，这些负载未用于调规则。"
    "可扩展段中 torch 不统计不可释放（inactive split）字节："
    "在该设置的运行中，无法归还的量只含活动块。",
)
_LINES = (
    (Text("cache above 30 %, ever", "缓存超过 30%（曾出现）"), scores.RULE_30),
    (Text("cache above 30 %, last reading", "缓存超过 30%（最后读数）"), scores.RULE_30_LAST),
    (Text("num_alloc_retries above 0", "num_alloc_retries 大于 0"), scores.RULE_RETRIES),
)


def tables(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return the table of scores, nothing where no run was made."""
    case = Case(panel)
    try:
        runs = scores.completed(case)
    except MissingFigureError:
        return []
    by_id = {one.claim.id: one for one in judged}
    lines = [_contexts(by_id["ctx-multiple"], said)]
    lines += [_line(case, said, words, sign) for words, sign in _LINES]
    lines += _tuned(case, runs, said)
    table = Table(
        "document-rules",
        said.name(Text("How well each rule predicts", "各规则的预测效果")),
        tuple(said.name(column) for column in _COLUMNS),
        tuple(lines),
        said.name(_ABOUT),
        emulated=panel.emulated,
        whole=True,
    )
    return [table]


def _contexts(judged: Judged, said: Said) -> tuple[Cell, ...]:
    verdict = said(judged.verdict.ruling.words)
    return (said(_CONTEXTS), *[empty(said.name(_ALWAYS))] * (len(_COLUMNS) - 2), verdict)


def _tuned(case: Case, runs: Sequence[Row], said: Said) -> list[tuple[Cell, ...]]:
    """Return the lines of a rule chosen on one half of the workloads: on the other half, beside
    the 30 % rule there."""
    try:
        _, test = scores.halves(runs)
        sign = scores.tuned(case)
    except MissingFigureError as missing:
        words = Text("a rule tuned on half of the workloads", "在一半负载上调出的规则")
        gaps = [empty(said.name(missing.reason))] * (len(_COLUMNS) - 2)
        return [(said(words), *gaps, said(Ruling.NOT_MEASURED.words))]
    name = scores.CANDIDATES[sign.metric]
    above = f"{sign.above:.0%}".replace("%", " %") if "share" in sign.metric else f"{sign.above:g}"
    best = Text(
        f"tuned on half of the workloads, scored on the other: {name.en}, above {above}",
        f"在一半负载上调出、在另一半上评分：{name.zh}，大于 {above}",
    )
    old = Text("cache above 30 %, ever, on the same runs", "缓存超过 30%（曾出现），在同样的运行上")
    told = scores.readings(case, sign.metric)

    def kept(row: Row) -> bool:
        return str(row["workload"]) in test and scores.place(row) in told

    return [_line(case, said, best, sign, kept), _line(case, said, old, scores.RULE_30, kept)]


def _line(
    case: Case,
    said: Said,
    words: Text,
    sign: Sign,
    kept: Callable[[Row], bool] = lambda row: True,
) -> tuple[Cell, ...]:
    one = case.apart()
    try:
        rows = scores.with_sign(one, sign, kept)
        one.work_out("runs", Text("runs", "运行数"), "count", rows[::2], "runs")
        base = scores.base_rate(one, "base", rows)
        ruling = scores.ruling(*scores.score(one, "sign", sign, rows), base)
        has_lead = scores.lead(one, "lead", sign, rows)
    except MissingFigureError as missing:
        gaps = [empty(said.name(missing.reason))] * (len(_COLUMNS) - 2)
        return (said(words), *gaps, said(Ruling.NOT_MEASURED.words))
    found = {evidence.name: evidence.cell for evidence in one.evidence}
    nobody = empty(said.name(Text("no run showed it", "没有运行出现该迹象")))
    return (
        said(words),
        found["runs"],
        found["base"],
        found["sign_shown"],
        found.get("sign_precision", nobody),
        found["sign_recall"],
        found["lead"] if has_lead else empty(said.name(_no_lead(sign))),
        said(ruling.words),
    )


def _no_lead(sign: Sign) -> Text:
    return _READ_ONCE if sign.metric.endswith("_last_before") else _NO_LEAD
