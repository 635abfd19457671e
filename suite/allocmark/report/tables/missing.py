"""What was not measured, and why: every reason of an empty cell, every stage that failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import pandas as pd

from allocmark.store.cell_conditions import conditions
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label

TITLE = "What was not measured, and why"
_NUMBER = re.compile(r"\d+(\.\d+)?")
_Line = tuple[str, str, str, str]
"""Probe, subject, what is missing, reason."""


def tables(panel: Panel) -> list[Table]:
    """Return one table of reasons; none where nothing is missing.

    Reasons that differ in their numbers only (seconds that were left) are one line, and so are
    subjects that lack the same. A stage that failed has a line where no empty cell says so.
    """
    empty = panel.rows[panel.rows["value"].isna()]
    cells = _alike(_cells(empty))
    stages = {key: lines for key, lines in _alike(_failures(panel)).items() if key not in cells}
    subjects: dict[_Line, list[str]] = {}
    for _, lines in sorted({**stages, **cells}.items()):
        probe, subject, whats, reason = _joined(lines)
        subjects.setdefault((probe, "", whats, reason), []).append(subject)
    if not subjects:
        return []
    return [
        Table(
            "missing",
            "Empty cells and stages that failed",
            ("benchmark", "subject", "what", "reason"),
            tuple(
                tuple(map(label, (probe, ", ".join(names), whats, reason)))
                for (probe, _, whats, reason), names in subjects.items()
            ),
            conditions=conditions(panel.store, empty) if len(empty) else (),
            emulated=panel.emulated,
        )
    ]


def _alike(lines: Iterable[_Line]) -> dict[tuple[str, str, str], list[_Line]]:
    """Return the lines of one probe, subject and kind of reason together."""
    found: dict[tuple[str, str, str], list[_Line]] = {}
    for line in sorted(set(lines)):
        probe, subject, _, reason = line
        found.setdefault((probe, subject, _NUMBER.sub("0", reason)), []).append(line)
    return found


def _joined(lines: Sequence[_Line]) -> _Line:
    probe, subject, _, _ = lines[0]
    whats = ", ".join(dict.fromkeys(what for _, _, what, _ in lines))
    reasons = list(dict.fromkeys(reason for _, _, _, reason in lines))
    more = f" (and {len(reasons) - 1} like it)" if reasons[1:] else ""
    return probe, subject, whats, reasons[0] + more


def _cells(empty: pd.DataFrame) -> Iterable[_Line]:
    columns = ["probe", "subject", "metric", "reason"]
    return empty[columns].astype(str).drop_duplicates().itertuples(index=False, name=None)


def _failures(panel: Panel) -> list[_Line]:
    documents = [panel.store.sources[index].document for index in panel.shown]
    return [(d.probe, d.subject, f.stage, f.reason) for d in documents for f in d.failures]
