"""The same statements under several versions of torch, on the emulated driver."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims import catalog
from allocmark.claims.core.claim import Judgement, Ruling
from allocmark.schema import versions
from allocmark.schema.versions import Said, Versions
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, label
from allocmark.system.message import Message, Recorded, Text

TITLE = Message("What other versions of torch say")
ORDER = 75
OF_DOCUMENT = True
_ABOUT = Message(
    "Which advice has aged: each statement on PyTorch that rests on bytes and counts, judged by "
    "its rule under each version, in a quick run on the emulated driver ({gpu}). Where versions "
    "differ comes first, marked by ≠."
)
_NOT_JUDGED = Message("not judged under this version")


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the table; none where the results folder has no such record."""
    found = None if panel.emulated else versions.read(panel.store.root)
    return [] if found is None else [_table(found)]


def _table(found: Versions) -> Table:
    statements = {claim.id: claim.statement for claim in catalog.claims()}
    columns = sorted(found.said, key=_as_numbers)
    rows = []
    for claim, statement in statements.items():
        own = [found.said[version].get(claim) for version in columns]
        if any(own):
            differ = len({one.ruling if one else None for one in own}) > 1
            mark = label(Recorded("≠" if differ else ""))
            rows.append((differ, (label(statement), mark, *map(_cell, own))))
    rows.sort(key=lambda row: not row[0])
    heads: tuple[Text, ...] = (
        Message("statement"),
        Message("differs"),
        *(Message("torch {version}", version=version) for version in columns),
    )
    about = _ABOUT.filled({"gpu": found.gpu})
    title = Message("The statements under versions of torch (emulated)")
    return Table("torch-versions", title, heads, tuple(row for _, row in rows), about)


def _cell(said: Said | None) -> Cell:
    return empty(_NOT_JUDGED) if said is None else label(Ruling(said.ruling).words)


def _as_numbers(version: str) -> tuple[int, ...]:
    plain = version.partition("+")[0]
    return tuple(int(part) for part in plain.split(".") if part.isdecimal())
