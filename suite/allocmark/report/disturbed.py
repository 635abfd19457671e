"""Whether what is shown was measured while others used the GPU: a sentence above all of it."""

from __future__ import annotations

from allocmark.compare.environment import others, slowed
from allocmark.store.panel import Panel
from allocmark.system.message import Message, Text


def disturbed(panel: Panel) -> Text:
    """Return how many of the documents were, and what follows; empty where none was."""
    shown = [panel.store.sources[index].document for index in panel.shown]
    count = sum(bool(others(document) or slowed(document)) for document in shown)
    if not count:
        return ""
    return Message(
        "Other programs used the GPU, or it was slowed down, while {count} of {all} documents "
        "were measured: their figures can be had but not trusted. The conditions below each table "
        "say more.",
        count=str(count),
        all=str(len(shown)),
    )
