"""A comparison for a terminal: the answer, conditions, what moved, what the runs cannot tell."""

from __future__ import annotations

from collections.abc import Callable

from allocmark.compare.model import Comparison, Mean, Row
from allocmark.compare.sensitivity import sensitivities
from allocmark.report.comparison import (
    HEADINGS,
    MOVED,
    SHOWN,
    Namer,
    as_csv,
    as_json,
    as_markdown,
    both_values,
    namer,
    percent,
    step,
    summary,
    wanted,
    warnings,
)
from allocmark.system.printable import visible

FEW = 5
"""So many of what should not be at all."""


def as_text(found: Comparison, shown: int = SHOWN) -> str:
    """Return the comparison for a terminal."""
    lines = [summary(found), *(f"! {visible(warning)}" for warning in warnings(found))]
    if any(row.emulated for row in found.rows):
        lines.append("! emulated GPU: times and context are not hardware's")
    for letter, side in (("A", found.a), ("B", found.b)):
        lines.append(
            f"{letter}: {visible(side.label)} ({', '.join(map(visible, side.stacks))}; "
            f"{_plural(len(side.runs), 'run')}, {_plural(side.documents, 'document')})"
        )
    lines += [
        f"   {change.name}: {visible(change.a)} -> {visible(change.b)}"
        for change in found.environment
    ]
    name = namer(found)
    lines += _means(found, shown, name)
    for verdict, title in HEADINGS.items():
        rows = found.of(verdict)
        if rows and verdict != "unclear":
            lines += ["", f"{title}: {len(rows)}", *(_line(row, name) for row in rows[:shown])]
            lines += _more(len(rows) - shown)
    lines += _unclear(found, name)
    if found.missing:
        lines += ["", f"On one side only: {len(found.missing)}"]
        lines += [
            f"  {visible(name(one))}  only in {one.only.upper()}: {visible(one.reason)}"
            for one in found.missing[:shown]
        ]
        lines += _more(len(found.missing) - shown)
    return "\n".join(lines) + "\n"


def _means(found: Comparison, shown: int, name: Namer) -> list[str]:
    """Return the means of whole groups, and which of the others moved."""
    groups = [mean for mean in found.means if mean.scope == "all"]
    if not groups:
        return []
    lines = ["", "On average (B over A, 95 % interval; the smallest step that it would show)"]
    lines += [f"{_mean(mean, name(mean))}  {step(mean.shows)}" for mean in groups]
    moved = [mean for mean in found.means_of(*MOVED) if mean.scope != "all"]
    if moved:
        lines += ["", f"Moved on average, by allocator and call: {len(moved)}"]
        lines += [_mean(mean, name(mean)) for mean in moved[:shown]]
        lines += _more(len(moved) - shown)
    return lines


def _mean(mean: Mean, name: str) -> str:
    interval = f"({percent(mean.low)} to {percent(mean.high)})"
    line = f"  {mean.verdict:8}{percent(mean.ratio):>9} {interval:24} {visible(name)}"
    return f"{line}, {_plural(mean.figures, 'time')}"


def _unclear(found: Comparison, name: Namer) -> list[str]:
    """Return what these runs leave open, by group: why, and how many runs would tell."""
    groups = sensitivities(found)
    exact = [row for row in found.rows if row.exact]
    odd = [row for row in exact if row.verdict == "unclear"]
    lines = []
    if odd:
        lines += ["", f"Exact, yet different between runs of one side: {len(odd)}"]
        lines += [*(_line(row, name) for row in odd[:FEW]), *_more(len(odd) - FEW)]
    if groups:
        lines += ["", "Unclear: these runs cannot tell such figures one by one"]
        lines += [
            f"  {one.unclear:>5} of {one.figures:<5} {one.group:28} noise {step(one.half):>9}, "
            f"{step(one.least)} matters: {wanted(one)} runs a side"
            for one in groups
        ]
        lines.append(
            "  Means need fewer runs (above). More runs: allocmark gate --rerun 3, or several "
            "results folders as one side."
        )
    return lines


def _line(row: Row, name: Namer) -> str:
    a, b = both_values(row)
    return f"  {_ratio_text(row):>9}  {a} -> {b}  {visible(name(row))}  ({visible(row.note)})"


def _more(count: int) -> list[str]:
    return [f"  and {count} more (--format csv has all)"] if count > 0 else []


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _ratio_text(row: Row) -> str:
    return "-" if row.ratio is None else percent(row.ratio)


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": as_text,
    "md": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
