"""Fragmentation: waste and capacity at a glance, then the whole vector of each workload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import WORKLOAD
from allocmark.report.table_spec import TableSpec, made
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import capacity, fragmentation, placement
from allocmark.store.grid import METRIC, SUBJECT, Key, size
from allocmark.store.panel import Panel
from allocmark.store.table import Table
from allocmark.system.message import Message, Text

TITLE = Message("Fragmentation under mixed sizes")
ORDER = 130


def _by_workload(metric: Metric, title: Text, about: Text = "", leading: bool = False) -> TableSpec:
    return TableSpec(
        name=metric.name,
        title=title,
        about=about,
        metrics=[metric],
        down=(SUBJECT,),
        across=WORKLOAD,
        mark_meters=True,
        leading=leading,
    )


_GLANCES = (
    _by_workload(
        fragmentation.WASTE_RATIO,
        Message("Waste"),
        Message(
            "Share of the reserved bytes that the program never asked for: "
            "1 - peak requested / peak reserved."
        ),
        leading=True,
    ),
    _by_workload(
        fragmentation.PEAK_RESERVED_BYTES,
        Message("Peak reserved"),
        Message("The most bytes held from the driver at once."),
    ),
)
_CAPACITY = (
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
_PLACEMENT = (
    TableSpec(
        name="answers",
        title=Message("Where blocks go"),
        about=Message(
            "1: yes. Best fit: the smallest hole that holds the request is taken; merges at free: "
            "freed neighbours are one at once; splits: the rest of a hole is used."
        ),
        metrics=[placement.BEST_FIT, placement.MERGES_AT_FREE, placement.SPLITS],
        down=(SUBJECT,),
        across=METRIC,
    ),
    TableSpec(
        name="hole-bytes",
        title=Message("The hole that a request went into"),
        about=Message("Holes of 64, 48 and 56 MiB were free, in this order."),
        metrics=[placement.HOLE_BYTES],
        down=(SUBJECT,),
        across=Key("request", show=size),
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return one table for each glance, and one with the whole vector for each workload."""
    return [
        *made(panel, fragmentation.EXPERIMENT, _GLANCES),
        *made(panel, capacity.EXPERIMENT, _CAPACITY),
        *made(panel, fragmentation.EXPERIMENT, map(_vector, _workloads(panel))),
        *made(panel, placement.EXPERIMENT, _PLACEMENT),
    ]


def _workloads(panel: Panel) -> list[str]:
    rows = panel.figures(fragmentation.EXPERIMENT)
    known = "workload" in rows
    return sorted(map(str, rows["workload"].dropna().unique())) if known else []


def _vector(workload: str) -> TableSpec:
    return TableSpec(
        name=f"workload-{workload}",
        title=Message("Workload {name}: the whole vector", name=workload),
        where={"workload": workload},
        down=(SUBJECT,),
        across=replace(METRIC, order=tuple(metric.name for metric in fragmentation.VECTOR)),
        mark_meters=True,
    )
