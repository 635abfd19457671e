"""The verdicts as tables: how many of each, and every claim with its figures."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.basis import FEW_READINGS
from allocmark.claims.claim import Evidence, Judged, tally
from allocmark.claims.text import Text
from allocmark.report.tables.document import Said, filled
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, label

TITLE = Text("The document's statements and their verdicts", "源文档的说法与结论")
SOURCE = Text(
    "The statements are those of a widely read engineering note on GPU memory in PyTorch and "
    "TensorFlow, in our words; sections 3.1 to 3.5 are its.",
    "这些说法出自一篇流传很广的工程笔记（谈 PyTorch 与 TensorFlow 的 GPU 显存），以我们的话转述；"
    "3.1 至 3.5 是它的章节。",
)
"""Whose statements are judged."""
_ABOUT = Text(
    f"{SOURCE.en} What is not measured here says what is missing. ≈ stands before a figure that "
    "has not settled, or is worked out of one.",
    f"{SOURCE.zh}未测者说明缺什么。≈ 表示该数值（或所据数值）尚未稳定。",
)
_RULED = Text(
    "Each verdict is worked out by a rule from figures of this record.",
    "每个结论都由规则根据本记录的数值算出。",
)
_UNSETTLED = Text(" (not settled)", "（尚未稳定）")
_COLUMNS = (
    Text("id", "编号"),
    Text("section", "章节"),
    Text("statement", "说法"),
    Text("verdict", "结论"),
    Text("when, or why not", "成立条件，或未测原因"),
    Text("rests on", "依据"),
    Text("figures", "数值"),
    Text("cause", "原因"),
    Text("measured again by", "重测命令"),
)


def tables(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return the tally, and one table of all claims in the document's order."""
    little = on_little(judged)
    counts = Table(
        "verdicts-tally",
        said.name(Text("How many statements hold", "各结论的数量")),
        tuple(said.name(text) for text in (Text("verdict", "结论"), Text("statements", "说法数"))),
        tuple(
            (said(ruling.words), Cell(str(count), float(count), "count"))
            for ruling, count in tally(judged).items()
        ),
        said.name(Text(f"{_RULED.en} {little.en}".strip(), f"{_RULED.zh}{little.zh}")),
        emulated=panel.emulated,
        whole=True,
    )
    every = Table(
        "verdicts",
        said.name(Text("Every statement", "全部说法")),
        tuple(said.name(column) for column in _COLUMNS),
        tuple(_row(one, said) for one in judged),
        said.name(_ABOUT),
        emulated=panel.emulated,
        whole=True,
    )
    return [counts, every]


def on_little(judged: Sequence[Judged]) -> Text:
    """Return the sentence on how many verdicts rest on little; none where none does."""
    given = sum(one.basis is not None for one in judged)
    few = sum(one.caution is not None for one in judged)
    if not few:
        return Text("", "")
    return Text(
        f"{few} of {given} verdicts rest on little: a quick run, or fewer than {FEW_READINGS} "
        "readings in all where figures are not exact. Each of them says so.",
        f"{given} 个结论中有 {few} 个依据较少：来自快速测量，或非精确数值总共不足 {FEW_READINGS} "
        "次读数。这些结论旁均有注明。",
    )


def none_decided(judged: Sequence[Judged]) -> Text:
    """Return what is said where none of the statements is decided."""
    return Text(
        f"What was measured here decides none of the {len(judged)} statements of the source "
        "document; a run of everything measures what they need.",
        f"这里测得的内容不足以判断源文档 {len(judged)} 条说法中的任何一条；"
        "不加筛选的测量会测出所需的数值。",
    )


def _row(one: Judged, said: Said) -> tuple[Cell, ...]:
    claim, verdict = one.claim, one.verdict
    rows = tuple(dict.fromkeys(index for e in verdict.evidence for index in e.cell.rows))
    cause = filled(one, verdict.cause)
    cited = " ".join(claim.published)
    return (
        label(claim.id),
        label(claim.section),
        said(claim.statement),
        said(verdict.ruling.words),
        said(filled(one, verdict.condition or verdict.reason)),
        said(one.basis.words if one.basis else Text("", "")),
        Cell(said.name(_figures(verdict.evidence)), rows=rows),
        said(Text(f"{cause.en} {cited}".strip(), f"{cause.zh} {cited}".strip())),
        label("; ".join(one.commands)),
    )


def _figures(evidence: Sequence[Evidence]) -> Text:
    """Return the figures as one text: each with what it is, and whether it has not settled."""
    marks = [_UNSETTLED if one.cell.unsettled else Text("", "") for one in evidence]
    told = list(zip(evidence, marks, strict=True))
    return Text(
        "; ".join(f"{one.what.en}: {one.cell.text}{mark.en}" for one, mark in told),
        "；".join(f"{one.what.zh}：{one.cell.text}{mark.zh}" for one, mark in told),
    )
