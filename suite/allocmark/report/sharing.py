"""Conditions said once: what held for every table of a part, and what differs for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from allocmark.store.table import Table
from allocmark.system.message import Text

Conditions = tuple[tuple[str, Text], ...]

_OWN = ("meter", "samples", "spread", "measured again by")
"""What each table says for itself, even where they all say the same."""
_MOST = 0.4
"""Of the tables: what fewer have in common is said below each of them."""


_LONG = 80
"""Letters from which a text is said once rather than twice."""


def shared(tables: Iterable[Table]) -> Conditions:
    """Return the conditions that most tables have, each with its most frequent text."""
    counts: dict[str, dict[Text, int]] = {}
    conditioned = [table for table in tables if table.conditions]
    for table in conditioned:
        for name, text in table.conditions:
            if name not in _OWN:
                texts = counts.setdefault(name, {})
                texts[text] = texts.get(text, 0) + 1
    usual = {name: max(texts, key=lambda t: texts[t]) for name, texts in counts.items()}
    return tuple(
        (name, text)
        for name, text in usual.items()
        if counts[name][text] > _MOST * len(conditioned)
    )


def repeated(tables: Iterable[Table], common: Conditions) -> Conditions:
    """Return the long ones of what several tables say beyond the common ones: said in one place,
    where each of these tables points to."""
    counts = Counter(pair for table in tables for pair in own(table, common))
    return tuple(
        (name, text)
        for (name, text), count in counts.items()
        if count > 1 and len(str(text)) > _LONG
    )


def own(table: Table, common: Conditions) -> Conditions:
    """Return what a table's conditions say beyond, or other than, the common ones."""
    known = set(common)
    return tuple(pair for pair in table.conditions if pair not in known)


def lacking(table: Table, common: Conditions) -> tuple[str, ...]:
    """Return the names of common conditions that were not read for a table."""
    names = {name for name, _ in table.conditions}
    return tuple(name for name, _ in common if name not in names)
