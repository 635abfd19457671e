"""Fragmentation: waste and capacity at a glance, then the whole vector of each workload."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import WORKLOAD
from allocmark.report.table_spec import TableSpec, made
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import capacity, fragmentation
from allocmark.store.grid import METRIC, SUBJECT
from allocmark.store.panel import Panel
from allocmark.store.table import Table
from allocmark.system.message import Message, Text

TITLE = Message("Fragmentation under mixed sizes")
ORDER = 130


def _by_workload(metric: Metric, title: Text, about: Text = "", leading: bool = False) -> TableSpec:
    return TableSpec(
        [metric], title, (SUBJECT,), WORKLOAD, about=about, mark_meters=True, leading=leading
    )


_GLANCES = (
    _by_workload(
        fragmentation.WASTE_RATIO,
        Message("Waste"),
        Message(
            "Reserved but not allocated at the peak, as a share: 1 - peak requested / peak "
            "reserved. Where nothing is short most of it is cache, which is released before a "
            "request fails."
        ),
        leading=True,
    ),
    _by_workload(
        fragmentation.PEAK_RESERVED_BYTES,
        Message("Peak reserved"),
        Message("The most bytes held from the driver at once."),
    ),
    _by_workload(
        capacity.SMALLEST_CAPACITY_BYTES,
        Message("Smallest capacity"),
        Message(
            "The fewest bytes, left to the process after its context, in which the workload "
            "completes."
        ),
    ),
    _by_workload(
        capacity.CAPACITY_RATIO,
        Message("Smallest capacity over live peak"),
        Message("1 is the least any allocator could do with."),
        leading=True,
    ),
    _by_workload(
        capacity.RESOLUTION_BYTES, Message("Resolution of the search for the smallest capacity")
    ),
    _by_workload(
        capacity.UNLIMITED_DEVICE_BYTES, Message("Device bytes held where nothing is short")
    ),
    _by_workload(capacity.SEARCH_RUNS, Message("Runs of the workload that each search took")),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return one table for each glance, and one with the whole vector for each workload."""
    rows = panel.figures(fragmentation.EXPERIMENT)
    workloads = sorted(map(str, rows["workload"].dropna().unique())) if "workload" in rows else []
    return made(panel, (*_GLANCES, *map(_vector, workloads)))


def _vector(workload: str) -> TableSpec:
    return TableSpec(
        fragmentation.VECTOR,
        Message("Workload {name}: the whole vector", name=workload),
        (SUBJECT,),
        METRIC,
        name=f"workload-{workload}",
        where={"workload": workload},
        mark_meters=True,
    )
