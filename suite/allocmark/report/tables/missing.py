"""What was not measured, and why: every reason of an empty cell, every stage that failed."""

from __future__ import annotations

from collections import Counter

import pandas as pd

from allocmark.report.conditions import conditions
from allocmark.report.panel import Panel
from allocmark.report.table import Table, label

TITLE = "What was not measured, and why"


def tables(panel: Panel) -> list[Table]:
    """Return one table of reasons; none where nothing is missing."""
    empty = panel.rows[panel.rows["value"].isna()]
    lines = [*_cells(empty), *_failures(panel)]
    if not lines:
        return []
    return [
        Table(
            "missing",
            "Empty cells and stages that failed",
            ("benchmark", "subject", "what", "reason"),
            tuple(tuple(map(label, line)) for line in sorted(set(lines))),
            conditions=conditions(panel.store, empty) if len(empty) else (),
            emulated=panel.emulated,
        )
    ]


def _cells(empty: pd.DataFrame) -> list[tuple[str, str, str, str]]:
    columns = ["probe", "subject", "metric", "reason"]
    counts = Counter(empty[columns].astype(str).itertuples(index=False, name=None))
    return [
        (probe, subject, f"{metric} ({count} cells)" if count > 1 else metric, reason)
        for (probe, subject, metric, reason), count in counts.items()
    ]


def _failures(panel: Panel) -> list[tuple[str, str, str, str]]:
    documents = [panel.store.sources[index].document for index in panel.shown]
    return [(d.probe, d.subject, f.stage, f.reason) for d in documents for f in d.failures]
