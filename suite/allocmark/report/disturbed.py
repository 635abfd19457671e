"""Whether what is shown was measured while others used the GPU: a sentence above all of it."""

from __future__ import annotations

from collections.abc import Mapping

from allocmark.documents import Document
from allocmark.report.panel import Panel

_READINGS = ("before", "after")


def disturbed(panel: Panel) -> str:
    """Return how many of the documents were, and what follows; empty where none was."""
    shown = [panel.store.sources[index].document for index in panel.shown]
    count = sum(map(_was, shown))
    if not count:
        return ""
    return (
        f"Other programs used the GPU, or it was slowed down, while {count} of {len(shown)} "
        "documents were measured: their figures can be had but not trusted. The conditions below "
        "each table say more."
    )


def _was(document: Document) -> bool:
    readings = [document.conditions.get(name) for name in _READINGS]
    return any(
        reading.get("other_processes") or reading.get("slowed_by")
        for reading in readings
        if isinstance(reading, Mapping)
    )
