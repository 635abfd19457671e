"""The tables of docs/replay.md, made of the record: ``allocmark dev replay-accuracy``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from allocmark.report import markdown
from allocmark.report.tables import replay_accuracy
from allocmark.schema.metrics.replay_agreement import EXPERIMENT
from allocmark.store.frame import load
from allocmark.store.panel import Panel, panels
from allocmark.system.errors import AllocmarkError

BEGIN = "<!-- made by: allocmark dev replay-accuracy --results results --page docs/replay.md -->\n"
END = "<!-- end -->\n"
_LEVEL = 4


def section(results: Path) -> str:
    """Return the tables of every GPU in a results folder, with what they were measured on.

    Raises `AllocmarkError` where there is none.
    """
    parts = []
    for panel in panels(load(results)):
        made = [table for table in replay_accuracy.tables(panel, ()) if table.leading]
        if made:
            parts.append(_measured_on(panel))
            # The report has the conditions in full.
            parts += [markdown.table(replace(table, conditions=()), _LEVEL) for table in made]
    if not parts:
        raise AllocmarkError(f"{results} holds no replays against real runs: measure some first")
    return "\n\n".join(parts) + "\n"


def _measured_on(panel: Panel) -> str:
    found = [source.document for _, source in panel.sources(EXPERIMENT)]
    stacks = [document.stack for document in found]
    texts = {
        f"{stack['gpu']}, driver {stack['driver']}, torch {stack['framework_version']}"
        for stack in stacks
    }
    dates = sorted({document.started[:10] for document in found})
    return f"Measured on {'; '.join(sorted(texts))}; {' and '.join(dates)}."


def renew(page: Path, results: Path) -> None:
    """Put the section into a page, between its two marks. Raises `AllocmarkError` without them."""
    put(page, BEGIN, section(results))


def put(page: Path, mark: str, text: str) -> None:
    """Put a text between a mark and the end. Raises `AllocmarkError` where they are missing."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(mark)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise AllocmarkError(f"{page} has no place for the tables: {mark.strip()} … {END.strip()}")
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
