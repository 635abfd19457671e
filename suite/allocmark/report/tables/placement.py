"""Placement: where an allocator puts blocks, and the holes that it chooses."""

from __future__ import annotations

from allocmark.report.table_spec import TableSpec
from allocmark.report.tables import fragmentation
from allocmark.schema.metrics import placement
from allocmark.store.grid import METRIC, SUBJECT, Key, size
from allocmark.system.message import Message

TITLE = fragmentation.TITLE
ORDER = 135

TABLES = (
    TableSpec(
        [placement.BEST_FIT, placement.MERGES_AT_FREE, placement.SPLITS],
        Message("Where blocks go"),
        (SUBJECT,),
        METRIC,
        about=Message(
            "1: yes. Best fit: the smallest hole that holds the request is taken; merges at free: "
            "freed neighbours are one at once; splits: the rest of a hole is used."
        ),
        name="answers",
    ),
    TableSpec(
        [placement.HOLE_BYTES],
        Message("The hole that a request went into"),
        (SUBJECT,),
        Key("request", show=size),
        about=Message("Holes of 64, 48 and 56 MiB were free, in this order."),
    ),
)
