"""What was not measured, and why: every reason of an empty cell, every stage that failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from allocmark.claims.core.claim import Judgement
from allocmark.store.cell_conditions import conditions
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label
from allocmark.system.message import Message, Recorded, Text

TITLE = Message("What was not measured, and why")
ORDER = 180
_NUMBER = re.compile(r"\d+(\.\d+)?")
_Line = tuple[str, str, str, str]
"""Probe, subject, what is missing, reason."""


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return one table of reasons; none where nothing is missing.

    Reasons that differ in their numbers only (seconds that were left) are one line, and so are
    subjects that lack the same. A stage that failed has a line where no empty cell says so.
    """
    empty = panel.rows[panel.rows["value"].isna()]
    cells = _alike(_cells(empty))
    stages = {key: lines for key, lines in _alike(_failures(panel)).items() if key not in cells}
    subjects: dict[tuple[str, Text, Text], list[str]] = {}
    for _, lines in sorted({**stages, **cells}.items()):
        subjects.setdefault((lines[0][0], *_joined(lines)), []).append(lines[0][1])
    if not subjects:
        return []
    return [
        Table(
            "missing",
            Message("Empty cells and stages that failed"),
            (Message("benchmark"), Message("subject"), Message("what"), Message("reason")),
            tuple(
                tuple(map(label, (Recorded(probe), Recorded(", ".join(names)), what, reason)))
                for (probe, what, reason), names in subjects.items()
            ),
            conditions=conditions(panel.store, empty) if len(empty) else (),
        )
    ]


def _alike(lines: Iterable[_Line]) -> dict[tuple[str, str, str], list[_Line]]:
    """Return the lines of one probe, subject and kind of reason together."""
    found: dict[tuple[str, str, str], list[_Line]] = {}
    for line in sorted(set(lines)):
        probe, subject, _, reason = line
        found.setdefault((probe, subject, _NUMBER.sub("0", reason)), []).append(line)
    return found


def _joined(lines: Sequence[_Line]) -> tuple[Text, Text]:
    """Return what is missing in all of these lines, and the first of their reasons."""
    whats = dict.fromkeys(what for _, _, what, _ in lines)
    first, *others = dict.fromkeys(reason for _, _, _, reason in lines)
    reason: Text = Recorded(first)
    if others:
        reason = Message("{reason} (and {count} like it)", reason=reason, count=str(len(others)))
    return Recorded(", ".join(whats)), reason


def _cells(empty: pd.DataFrame) -> Iterable[_Line]:
    columns = ["probe", "subject", "metric", "reason"]
    return empty[columns].astype(str).drop_duplicates().itertuples(index=False, name=None)


def _failures(panel: Panel) -> list[_Line]:
    documents = [panel.store.sources[index].document for index in panel.shown]
    return [(d.probe, d.subject, f.stage, f.reason) for d in documents for f in d.failures]
