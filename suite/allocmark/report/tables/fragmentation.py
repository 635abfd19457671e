"""Fragmentation: waste and capacity at a glance, then the whole vector of each workload."""

from __future__ import annotations

from allocmark.store.grid import METRIC, SUBJECT, Key, size
from allocmark.store.panel import Panel
from allocmark.store.section import make, values
from allocmark.store.table import Table

TITLE = "Fragmentation under mixed sizes"

_WORKLOAD = Key("workload", "workload")
_VECTOR = (
    "peak_requested_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "device_bytes",
    "waste_ratio",
    "largest_free_bytes",
    "segments",
    "driver_allocs",
    "driver_frees",
    "retries",
    "ooms",
    "hit_share",
    "replay_seconds",
)
_GLANCES = (
    (
        "waste_ratio",
        "Waste",
        "Share of the reserved bytes that the program never asked for: "
        "1 - peak requested / peak reserved.",
    ),
    ("peak_reserved_bytes", "Peak reserved", "The most bytes held from the driver at once."),
)
_CAPACITY = (
    (
        "smallest_capacity_bytes",
        "Smallest capacity",
        "The fewest bytes, left to the process after its context, in which the workload completes.",
    ),
    (
        "capacity_ratio",
        "Smallest capacity over live peak",
        "1 is the least any allocator could do with.",
    ),
    ("resolution_bytes", "Resolution of the search for the smallest capacity", ""),
    ("unlimited_device_bytes", "Device bytes held where nothing is short", ""),
    ("search_runs", "Runs of the workload that each search took", ""),
)

_ANSWERS = ("best_fit", "merges_at_free", "splits")
_PLACEMENT = (
    (
        _ANSWERS,
        Key("metric", "metric", METRIC.show, _ANSWERS),
        "answers",
        "Where blocks go",
        "1: yes. Best fit: the smallest hole that holds the request is taken; merges at free: "
        "freed neighbours are one at once; splits: the rest of a hole is used.",
    ),
    (
        ("hole_bytes",),
        Key("request", "request", size),
        "hole-bytes",
        "The hole that a request went into",
        "Holes of 64, 48 and 56 MiB were free, in this order.",
    ),
)


def tables(panel: Panel) -> list[Table]:
    """Return one table for each glance, and one with the whole vector for each workload."""
    made = [
        make(
            panel,
            probe,
            {"metric": metric},
            down=(SUBJECT,),
            across=_WORKLOAD,
            name=metric,
            title=title,
            about=about,
            mark_meters=True,
        )
        for probe, glances in (("fragmentation", _GLANCES), ("capacity", _CAPACITY))
        for metric, title, about in glances
    ]
    vector = Key("metric", "metric", METRIC.show, _VECTOR)
    made += [
        make(
            panel,
            "fragmentation",
            {"workload": workload},
            down=(SUBJECT,),
            across=vector,
            name=f"workload-{workload}",
            title=f"Workload {workload}: the whole vector",
            mark_meters=True,
        )
        for workload in values(panel, "fragmentation", "workload")
    ]
    made += [
        make(
            panel,
            "placement",
            {"metric": metrics},
            down=(SUBJECT,),
            across=across,
            name=name,
            title=title,
            about=about,
        )
        for metrics, across, name, title, about in _PLACEMENT
    ]
    return [table for table in made if table is not None]
