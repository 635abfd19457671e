"""What the names mean: every workload and allocator that the figures are of, in a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.claims.claim import Judged
from allocmark.claims.text import Text
from allocmark.report.tables.document import Said
from allocmark.store.grid import SUBJECT
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label
from allocmark.system import message
from allocmark.system.units import MIB
from allocmark.workloads import catalog

TITLE = Text("What the names mean", "名称的含义")
_POLICY = "tensorflow_policy"
_NO_LIMIT_NOTED = Text(
    "memory_limit, of which this record does not say how much", "memory_limit，本记录未注明其值"
)
_MEANING, _SET_BY = Text("meaning", "含义"), Text("set by", "设置方式")


def tables(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return a table of workloads and one of allocators, of those that have a figure."""
    rows = panel.rows[panel.rows["value"].notna()]
    present = set(rows["workload"].dropna()) if "workload" in rows else set()
    workloads = [
        (label(name), said(_both(text)))
        for name, text in catalog.descriptions().items()
        if name in present
    ]
    known = registry()
    allocators = [
        (label(name), said(_both(known[name].description)), said(_set_by(known[name], panel)))
        for name in sorted(map(str, rows["subject"].unique()), key=SUBJECT.rank)
        if name in known and known[name].description
    ]
    of = Text("workload", "负载"), Text("allocator", "分配器")
    made = (
        ("workloads", Text("Workloads", "负载"), (of[0], _MEANING), workloads),
        ("allocators", Text("Allocators", "分配器"), (of[1], _MEANING, _SET_BY), allocators),
    )
    return [
        Table(
            f"names-{name}",
            said.name(title),
            tuple(said.name(column) for column in columns),
            tuple(lines),
            emulated=panel.emulated,
            whole=True,
        )
        for name, title, columns, lines in made
        if lines
    ]


def _both(text: message.Text) -> Text:
    path = Path(__file__).parents[1] / "locale" / "zh.json"
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))["messages"]
    return Text(str(text), known.get(str(text), str(text)))


def _set_by(allocator: Allocator, panel: Panel) -> Text:
    """Return what makes an allocator what it is: variables, a call, or nothing."""
    return _limit(panel) if allocator.name == LIMIT else _both(allocator.configured_by)


def _limit(panel: Panel) -> Text:
    """Return TensorFlow's limit in MiB, as the record has it: one experiment sets its own."""
    documents = [panel.store.sources[index].document for index in panel.shown]
    notes = [d.conditions.get("notes") for d in documents if d.subject == LIMIT]
    settings = [str(note.get("setting", "")) for note in notes if isinstance(note, Mapping)]
    told = [setting.partition(";")[0] for setting in settings if setting.startswith("memory_limit")]
    english, chinese = told[:1], told[:1]
    own = panel.named(_POLICY, "limit_bytes")
    for value in own["value"].dropna().tolist()[:1]:
        there = f"memory_limit={value / MIB:.0f}"
        english, chinese = [*english, f"{there} in {_POLICY}"], [*chinese, f"{_POLICY} 中 {there}"]
    return Text("; ".join(english), "；".join(chinese)) if english else _NO_LIMIT_NOTED
