"""Section 3.4 as a table: each branch of the way to memory, its cost and how often it is taken."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.case import Case
from allocmark.claims.claim import Evidence, Judged
from allocmark.claims.flow import branches
from allocmark.claims.text import Text
from allocmark.report import flow_chart
from allocmark.report.tables.document import Said, figure
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty

TITLE = Text("3.4 From .cuda() to memory", "3.4 从 .cuda() 到显存")
_COLUMNS = (
    Text("step", "步骤"),
    Text("cost", "代价"),
    Text("how often", "多常走到"),
)


def tables(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return the steps in order; it is the flow chart in words."""
    rows = tuple(
        (said(branch.words), _cell(branch.cost, said), _cell(branch.taken, said))
        for branch in branches(Case(panel))
    )
    about = Text(
        "Each step is tried when the one before did not do. Shares and counts are those of the "
        "workloads on torch's default allocator.",
        "前一步不成才走下一步；比例与次数来自各负载在 torch 默认分配器上的运行。",
    )
    table = Table(
        "document-flow",
        said.name(Text("The way of a request, step by step", "一次请求的路径")),
        tuple(said.name(column) for column in _COLUMNS),
        rows,
        said.name(about),
        emulated=panel.emulated,
        whole=True,
    )
    said.texts += flow_chart.texts()
    return [table]


def _cell(told: Evidence | Text, said: Said) -> Cell:
    return figure(told, said) if isinstance(told, Evidence) else empty(said.name(told))
