"""The claim of 3.5 on several processes, each with a context of its own."""

from __future__ import annotations

from allocmark.claims.case import Case, MissingFigureError, Row
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.context import METERS, SEVERAL_HUNDRED, total
from allocmark.claims.text import Text

_ALIKE = 0.1


def _multiple(case: Case) -> Verdict:
    each = {row["processes"]: row for row in _processes(case)}
    most = max(each)
    one = case.show("one", Text("one idle process", "一个空闲进程"), each[min(each)])
    many = case.show(
        "many", Text("each of the most idle processes", "空闲进程最多时每个"), each[most]
    )
    case.work_out(
        "processes",
        Text("processes then", "当时的进程数"),
        "axis of the row",
        [each[most]],
        "",
        (float(most),),
    )
    used = _used(case)
    shared = abs(many - one) > _ALIKE * one
    ruling = Ruling.HOLDS if many >= SEVERAL_HUNDRED and not shared else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "{processes} idle processes hold {many} each, as one alone does ({one}). One for each "
            "process is the least there can be: it is no fault by itself." + used.en,
            "{processes} 个空闲进程各占 {many}，与单个进程（{one}）相同。"
            "每进程一个已是最少，本身不是错误。" + used.zh,
        ),
        Text(
            "Processes share no context: each pays for its own in full.",
            "进程之间不共享上下文，各自全额承担。",
        ),
    )


def _used(case: Case) -> Text:
    """Return what a process that works holds beyond that, where it was measured."""
    one = case.apart()
    try:
        rows = [total(one, "torch", "first matrix product"), total(one, "torch", "context")]
    except MissingFigureError:
        return Text("", "")
    what = Text(
        "torch's first tensor, kernel and matrix product add", "torch 首个张量、内核、矩阵乘增加"
    )
    case.work_out("used", what, "difference", rows, "bytes")
    return Text(
        " A first tensor, kernel and matrix product add {used} in torch: a few hundred MB need "
        "not be idle contexts.",
        "torch 的首个张量、内核和矩阵乘再增加 {used}：几百 MB 未必是空闲的上下文。",
    )


def _processes(case: Case) -> list[Row]:
    for meter in METERS:
        rows = case.rows("context", "process_bytes", subject="driver", axis_meter=meter)
        if len(rows) > 1:
            return rows
    raise case.missing("context", "process_bytes", subject="driver")


CLAIMS = (
    Claim(
        "ctx-multiple",
        "3.5",
        Text(
            "Several processes at a few hundred MB each point to contexts created repeatedly.",
            "多个进程各占几百 MB，多半是重复创建了上下文。",
        ),
        ("context",),
        _multiple,
        on_context=True,
    ),
)
