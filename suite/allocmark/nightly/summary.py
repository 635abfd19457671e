"""A night in Markdown, ready to be an issue: what moved, by how much, and how to see it again."""

from __future__ import annotations

from dataclasses import replace

from allocmark.compare.model import VERDICTS, Comparison
from allocmark.gate.gating import Gate
from allocmark.nightly.factors import Factors
from allocmark.nightly.state import Night
from allocmark.report.comparison import namer, tables, warnings
from allocmark.report.markdown import band, bullets, heading
from allocmark.report.markdown import table as markdown_table
from allocmark.store.escape import markdown_line

_TABLES = ("moved", "worse", "changed", "environment", "means", "reach", "better")
_SHOWN = 25
_COMMANDS = 10


def title(night: Night, gate: Gate | None) -> str:
    """Return the issue's title: the night's answer, in the same words as long as it stays."""
    if gate is None:
        return f"{night.lane} lane: first night, nothing to hold it against"
    return f"{night.lane} lane, {gate.candidate.machine}: {gate.outcome}: {gate.found}"


def first_night(night: Night) -> str:
    """Return the summary of a lane's first night."""
    return f"{heading(1, title(night, None))}\n\nNight {night.folder.name}.\n"


def summary(night: Night, gate: Gate, moved: Factors, attribution: str) -> str:
    """Return the summary of a night that was held against earlier ones."""
    found = gate.comparison
    counts = ", ".join(f"{found.counted()[verdict]} {verdict}" for verdict in VERDICTS)
    sentence = moved.sentence()
    parts = [heading(1, title(night, gate))]
    if any(row.emulated for row in found.rows):
        parts.append(band())
    parts += [
        bullets(warnings(found)),
        markdown_line(f"Night {night.folder.name}, profile {night.profile}: {counts}."),
        # Where nothing moved, the attribution says that first.
        markdown_line(f"{sentence[0].upper()}{sentence[1:]}.") if moved or not attribution else "",
        markdown_line(attribution),
    ]
    shown = {table.id: table for table in tables(found, _SHOWN)}
    # The band stands once, above everything.
    parts += [
        markdown_table(replace(shown[name], emulated=False), 2) for name in _TABLES if name in shown
    ]
    parts += [_lost(gate), _again(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _lost(gate: Gate) -> str:
    if not gate.lost:
        return ""
    name = namer(gate.comparison)
    lines = [f"{name(figure)}: {figure.reason}" for figure in gate.lost[:_SHOWN]]
    more = len(gate.lost) - len(lines)
    lines += [f"and {more} more"] if more else []
    return f"{heading(2, f'No longer measured: {len(gate.lost)}')}\n\n{bullets(lines)}"


def _again(found: Comparison) -> str:
    commands = list(dict.fromkeys(row.command for row in found.of("worse")))
    if not commands:
        return ""
    # Four spaces: no fence that a foreign name could end.
    code = "\n".join(f"    {' '.join(line.split())}" for line in commands[:_COMMANDS])
    return f"{heading(2, 'To see it again')}\n\n{code}"
