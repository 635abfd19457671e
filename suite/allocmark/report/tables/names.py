"""What the names mean: every workload and allocator that the figures are of, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.claims.core.claim import Judgement
from allocmark.store.grid import SUBJECT
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label
from allocmark.system.message import Message, Text, listed
from allocmark.system.units import MIB
from allocmark.workloads import catalog

TITLE = Message("What the names mean")
ORDER = 80
OF_DOCUMENT = True
_POLICY = "tensorflow_policy"
_NO_LIMIT_NOTED = Message("memory_limit, of which this record does not say how much")


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return a table of workloads and one of allocators, of those that have a figure."""
    rows = panel.rows[panel.rows["value"].notna()]
    present = set(rows["workload"].dropna()) if "workload" in rows else set()
    workloads = [
        (label(name), label(text))
        for name, text in catalog.descriptions().items()
        if name in present
    ]
    known = registry()
    allocators = [
        (label(name), label(known[name].description), label(_set_by(known[name], panel)))
        for name in sorted(map(str, rows["subject"].unique()), key=SUBJECT.rank)
        if name in known and known[name].description
    ]
    meaning = Message("meaning")
    of_allocators = (Message("allocator"), meaning, Message("set by"))
    made = (
        ("workloads", Message("Workloads"), (Message("workload"), meaning), workloads),
        ("allocators", Message("Allocators"), of_allocators, allocators),
    )
    return [
        Table(
            f"names-{name}",
            title,
            columns,
            tuple(lines),
            emulated=panel.emulated,
            whole=True,
            leading=True,
        )
        for name, title, columns, lines in made
        if lines
    ]


def _set_by(allocator: Allocator, panel: Panel) -> Text:
    """Return what makes an allocator what it is: variables, a call, or nothing."""
    return _limit(panel) if allocator.name == LIMIT else allocator.configured_by


def _limit(panel: Panel) -> Text:
    """Return TensorFlow's limit in MiB, as the record has it: one experiment sets its own."""
    documents = [panel.store.sources[index].document for index in panel.shown]
    notes = [d.conditions.get("notes") for d in documents if d.subject == LIMIT]
    settings = [str(note.get("setting", "")) for note in notes if isinstance(note, Mapping)]
    limits = [s.partition(";")[0] for s in settings if s.startswith("memory_limit")]
    told: list[Text] = [*limits[:1]]
    own = panel.named(_POLICY, "limit_bytes")
    for value in own["value"].dropna().tolist()[:1]:
        limit = f"memory_limit={value / MIB:.0f}"
        told.append(Message("{setting} in {experiment}", setting=limit, experiment=_POLICY))
    return listed(told) if told else _NO_LIMIT_NOTED
