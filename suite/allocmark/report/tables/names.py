"""What the names mean: every workload and allocator that the figures are of, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.claims.core.claim import Judgement
from allocmark.schema.metrics.tensorflow_policy import EXPERIMENT, LIMIT_BYTES
from allocmark.schema.notes import NOTES, SETTING
from allocmark.store.grid import SUBJECT
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label
from allocmark.system.message import Message, Text, listed
from allocmark.system.units import MIB
from allocmark.workloads import catalog

TITLE = Message("What the names mean")
ORDER = 80
OF_DOCUMENT = True
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
    of_workloads = (Message("workload"), meaning)
    of_allocators = (Message("allocator"), meaning, Message("set by"))
    made = (
        ("workloads", Message("Workloads"), of_workloads, tuple(workloads)),
        ("allocators", Message("Allocators"), of_allocators, tuple(allocators)),
    )
    return [
        Table(f"names-{name}", title, columns, rows) for name, title, columns, rows in made if rows
    ]


def _set_by(allocator: Allocator, panel: Panel) -> Text:
    """Return what makes an allocator what it is: variables, a call, or nothing."""
    return _limit(panel) if allocator.name == LIMIT else allocator.configured_by


def _limit(panel: Panel) -> Text:
    """Return TensorFlow's limit in MiB, as the record has it: one experiment sets its own."""
    documents = [panel.store.sources[index].document for index in panel.shown]
    notes = [d.conditions.get(NOTES) for d in documents if d.subject == LIMIT]
    settings = [str(note.get(SETTING, "")) for note in notes if isinstance(note, Mapping)]
    noted = [s.partition(";")[0] for s in settings if s.startswith("memory_limit")]
    limits: list[Text] = [*noted[:1]]
    own = panel.named(EXPERIMENT, LIMIT_BYTES.name)
    for value in own["value"].dropna().tolist()[:1]:
        limit = f"memory_limit={value / MIB:.0f}"
        limits.append(Message("{setting} in {experiment}", setting=limit, experiment=EXPERIMENT))
    return listed(limits) if limits else _NO_LIMIT_NOTED
