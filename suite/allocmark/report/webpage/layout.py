"""Where things stand on the page: names of its places, and the picture that comes first."""

from __future__ import annotations

import re

from allocmark.report.page import Part, unique
from allocmark.system.message import Text

FIRST_PICTURES = (
    *("capacity", "memory", "waste", "modes", "latency", "context", "streams", "flow"),
)
"""What the first screen shows: the first of these that there is."""


def anchors(part: Part) -> dict[str, str]:
    """Return for each table of a part, by its id, the name of its place on the page."""
    taken: set[str] = set()
    return {table.id: unique(anchor(table.id), taken) for s in part.sections for table in s.tables}


def anchor(text: Text) -> str:
    """Return a text as the name of a place on the page."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-") or "unnamed"
