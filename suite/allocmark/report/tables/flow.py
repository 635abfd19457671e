"""Section 3.4 as a table: each step of the way to memory, who comes to it and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Evidence, Judgement
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.request_steps import steps
from allocmark.report.document_table import VERDICT
from allocmark.report.table_spec import TableSpec
from allocmark.schema.metrics import request_path
from allocmark.store.grid import Key, size
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Text

TITLE = Message("3.4 From .cuda() to memory")
ORDER = 60
OF_DOCUMENT = True
_COLUMNS = (
    Message("step"),
    Message("what torch does"),
    Message("requests"),
    Message("share of requests"),
    Message("requests, 1.1 live peaks"),
    Message("share of requests, 1.1 live peaks"),
    Message("cost of a request"),
    Message("size"),
    VERDICT,
)
_COPIES = TableSpec(
    [request_path.COPY_NS],
    Message("The copy to the device, until it is there"),
    (Key("host"),),
    Key("bytes", show=size),
    about=Message("Into a block that is there already; from memory of the host that was written."),
)
_CRAFTED = TableSpec(
    [request_path.CRAFTED_CALLS],
    Message("What one request of 32 MiB does on each branch"),
    (Key("branch"),),
    Key("counter"),
    about=Message("What torch's own counters show after it, in programs crafted for one branch."),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the steps in order, then the copies and what the crafted programs show."""
    lines = []
    for step in steps(EvidenceCollector(panel)):
        counts = zip(step.counts, step.shares, strict=True)
        found = (_cell(each) for pair in counts for each in pair)
        names = (label(step.words), label(step.does))
        verdict = step.verdict.words if step.verdict else ""
        ends = (_cell(step.cost), label(step.size), label(verdict))
        lines.append((*names, *found, *ends))
    table = Table(
        "document-flow",
        Message("The way of a request, step by step"),
        _COLUMNS,
        tuple(lines),
        Message(
            "In torch's order. Counted are all requests of the workloads on torch's default "
            "allocator, each run once without a limit and once with a memory fraction of 1.1 live "
            "peaks, which then refuses what is beyond; a run ends where memory runs out. All costs "
            "but those of the context and the copy are of torch's raw entry point called from "
            "Python. The verdict says whether crafted programs show the step as it is described."
        ),
    )
    made = (spec.made(panel) for spec in (_COPIES, _CRAFTED))
    return [table, *(each for each in made if each is not None)]


def _cell(found: Evidence | Text) -> Cell:
    return found.cell if isinstance(found, Evidence) else empty(found)
