"""Where things stand on the page: which tables lead their section, where a picture belongs."""

from __future__ import annotations

import re

from allocmark.report.page import Part, unique
from allocmark.report.tables import (
    context,
    flow,
    fragmentation,
    latency,
    streams,
    tensorflow_policy,
)

LEADING = frozenset(
    {
        "context-seconds",
        "context-total-bytes",
        "context-processes-bytes",
        "latency-hit-allocator",
        "latency-miss-allocator",
        "fragmentation-waste-ratio",
        "capacity-capacity-ratio",
        "streams-reserved-bytes",
        "streams-speedup",
        "pressure-shown-bytes",
        "pressure-kept-bytes",
        "pressure-completed",
        "tensorflow-policy-held-bytes",
        "tensorflow-policy-returned-bytes",
        "several-gpus-mode-bytes",
        "several-gpus-stray-bytes",
        "several-gpus-peer-times",
    }
)
"""Places of the tables that answer their section's question; the others stand behind them,
folded."""

PICTURES = {
    "context": context.TITLE,
    "latency": latency.TITLE,
    "waste": fragmentation.TITLE,
    "memory": fragmentation.TITLE,
    "streams": streams.TITLE,
    "modes": tensorflow_policy.TITLE,
    "flow": flow.TITLE.en,
}
"""The section that a picture belongs to."""

FIRST_PICTURES = ("memory", "waste", "modes", "latency", "context", "streams", "flow")
"""What the first screen shows: the first of these that there is."""


def leads(place: str) -> bool:
    """Whether the table at a place of the page (see `anchor`) is shown open."""
    return place in LEADING


def anchors(part: Part) -> dict[str, str]:
    """Return for each table of a part, by its id, the name of its place on the page."""
    taken: set[str] = set()
    return {table.id: unique(anchor(table.id), taken) for s in part.sections for table in s.tables}


def anchor(text: str) -> str:
    """Return a text as the name of a place on the page."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unnamed"
