"""A comparison for people and machines: text, Markdown, CSV and JSON. Says the conditions first."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace

from allocmark.compare.model import VERDICTS, Comparison, Row, Verdict
from allocmark.report.escape import csv_text, markdown_line, visible
from allocmark.report.markdown import band, bullets, heading
from allocmark.report.markdown import table as markdown_table
from allocmark.report.numbers import format_value
from allocmark.report.table import Cell, Table, label

SHOWN = 40
"""So many figures of a verdict are listed for people; CSV and JSON hold all."""
FEW = 5
"""So many of what is unclear in a terminal: it is mostly noise."""
_STUDY = "The GPUs differ: this is a study of two machines, and no difference is a regression."
_HEADINGS: dict[Verdict, str] = {
    "worse": "Worse",
    "better": "Better",
    "changed": "Changed, neither better nor worse",
    "unclear": "Unclear",
}
_CSV_COLUMNS = (
    "machine", "profile", "probe", "subject", "metric", "axes", "group", "unit", "exact",
    "emulated", "a", "b", "ratio", "low", "high", "q", "verdict", "note", "command",
)  # fmt: skip


def warnings(found: Comparison) -> list[str]:
    """Return what is said before any figure."""
    return [*([_STUDY] if found.study else []), *found.warnings]


def summary(found: Comparison) -> str:
    """Return one sentence: how many figures have each verdict."""
    counts = found.counted()
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    lost = f"; {len(found.missing)} on one side only" if found.missing else ""
    return f"{len(found.rows)} figures compared: {told}{lost}"


def tables(found: Comparison, shown: int = SHOWN) -> list[Table]:
    """Return the tables that say something: sides, environment, verdicts, means, figures."""
    emulated = any(row.emulated for row in found.rows)
    made = [_sides(found), _environment(found), _verdicts(found), _means(found)]
    made += [_figures(found, verdict, shown) for verdict in _HEADINGS]
    made.append(_missing(found, shown))
    kept = [table for table in made if table is not None and table.rows]
    if emulated:
        return [replace(table, emulated=True) for table in kept]
    return kept


def as_markdown(found: Comparison, shown: int = SHOWN, level: int = 1) -> str:
    """Return the comparison as Markdown (GitHub's)."""
    parts = [heading(level, f"{found.a.label} and {found.b.label} compared")]
    if any(row.emulated for row in found.rows):
        parts.append(band())
    parts += [bullets(warnings(found)), markdown_line(f"{summary(found)}.")]
    # The band stands once, above everything.
    parts += [
        markdown_table(replace(table, emulated=False), level + 1) for table in tables(found, shown)
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_text(found: Comparison, shown: int = SHOWN) -> str:
    """Return the comparison for a terminal."""
    lines = [f"! {visible(warning)}" for warning in warnings(found)]
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
    for mean in found.means:
        if mean.subject == "all":
            lines.append(
                f"   {mean.group}: {_percent(mean.ratio)} (geometric mean of {mean.figures})"
            )
    for verdict, title in _HEADINGS.items():
        rows = found.of(verdict)
        if rows:
            listed = shown if verdict != "unclear" else min(shown, FEW)
            lines += ["", f"{title}: {len(rows)}", *map(_line, rows[:listed])]
            lines += _more(len(rows) - listed)
    if found.missing:
        lines += ["", f"On one side only: {len(found.missing)}"]
        lines += [
            f"  {visible(one.place)}  only in {one.only.upper()}: {visible(one.reason)}"
            for one in found.missing[:shown]
        ]
        lines += _more(len(found.missing) - shown)
    return "\n".join([*lines, "", summary(found)]) + "\n"


def as_csv(found: Comparison) -> str:
    """Return every figure as a line, numbers unrounded in the unit of the record."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for row in found.rows:
        data = {name: getattr(row, name) for name in _CSV_COLUMNS}
        data["axes"] = " ".join(f"{name}={value}" for name, value in row.axes.items())
        writer.writerow([_csv_cell(data[name]) for name in _CSV_COLUMNS])
    return out.getvalue()


def as_json(found: Comparison) -> str:
    """Return all of the comparison, with the counts of verdicts."""
    data = {**asdict(found), "verdicts": found.counted()}
    return json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Comparison], str]] = {
    "text": as_text,
    "md": as_markdown,
    "csv": as_csv,
    "json": as_json,
}


def _line(row: Row) -> str:
    return (
        f"  {_ratio_text(row):>9}  {format_value(row.a, row.unit)} -> "
        f"{format_value(row.b, row.unit)}  {visible(row.place)}  ({visible(row.note)})"
    )


def _more(count: int) -> list[str]:
    return [f"  and {count} more (--format csv has all)"] if count > 0 else []


def _sides(found: Comparison) -> Table:
    rows = [
        [label(letter), label(side.label), label(", ".join(side.stacks)),
         label(", ".join(side.runs)), label(str(side.documents))]
        for letter, side in (("A", found.a), ("B", found.b))
    ]  # fmt: skip
    return _table("sides", "What is compared", ("", "named", "stack", "runs", "documents"), rows)


def _environment(found: Comparison) -> Table:
    rows = [[label(c.name), label(c.a), label(c.b)] for c in found.environment]
    return _table("environment", "What differs beside the figures", ("", "A", "B"), rows)


def _verdicts(found: Comparison) -> Table:
    groups = list(dict.fromkeys(sorted((row.exact, row.group) for row in found.rows)))
    rows = []
    for exact, group in groups:
        verdicts = [r.verdict for r in found.rows if (r.exact, r.group) == (exact, group)]
        counts = [Cell(str(n), float(n), "count") for n in map(verdicts.count, VERDICTS)]
        rows.append([label(f"{group}, exact" if exact else group), *counts])
    return _table("verdicts", "Verdicts", ("figures", *VERDICTS), rows)


def _means(found: Comparison) -> Table:
    rows = [
        [label(m.group), label(m.subject), Cell(str(m.figures), float(m.figures), "count"),
         Cell(_percent(m.ratio), m.ratio, "ratio")]
        for m in found.means
    ]  # fmt: skip
    about = "Geometric means of B over A; exact figures are left out, a figure of 0 has no ratio."
    columns = ("figures", "allocator", "count", "B over A")
    return _table("means", "On average", columns, rows, about)


def _figures(found: Comparison, verdict: Verdict, shown: int) -> Table:
    chosen = found.of(verdict)
    rows = [
        [label(row.place), Cell(format_value(row.a, row.unit), row.a, row.unit),
         Cell(format_value(row.b, row.unit), row.b, row.unit), _ratio_cell(row), label(row.note),
         label(row.command)]
        for row in chosen[:shown]
    ]  # fmt: skip
    cut = f" The {shown} largest of {len(chosen)}." if len(chosen) > shown else ""
    about = f"The interval is that of B over A.{cut}"
    columns = ("figure", "A", "B", "B over A", "why", "again")
    return _table(verdict, f"{_HEADINGS[verdict]}: {len(chosen)}", columns, rows, about)


def _missing(found: Comparison, shown: int) -> Table:
    rows = [
        [label(one.place), label(one.only.upper()), label(one.reason)]
        for one in found.missing[:shown]
    ]
    title = f"On one side only: {len(found.missing)}"
    return _table("missing", title, ("figure", "only in", "the other says"), rows)


def _ratio_cell(row: Row) -> Cell:
    if row.ratio is None:
        return Cell("-")
    if row.low is None or row.high is None:
        return Cell(_percent(row.ratio), row.ratio, "ratio")
    text = f"{_percent(row.ratio)} ({_percent(row.low)} to {_percent(row.high)})"
    return Cell(text, row.ratio, "ratio", row.low, row.high)


def _ratio_text(row: Row) -> str:
    return "-" if row.ratio is None else _percent(row.ratio)


_MANYFOLD = 10.0


def _percent(ratio: float) -> str:
    """Return ``+4.5 %``, or how many times where percents no longer say anything."""
    if ratio >= _MANYFOLD:
        return f"{ratio:.3g} times"
    change = 100 * (ratio - 1)
    return f"{change:+.1f} %" if change else "0 %"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _csv_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case _:
            return csv_text(str(value))


def _table(
    id: str, title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]], about: str = ""
) -> Table:
    return Table(id, title, tuple(columns), tuple(map(tuple, rows)), about)
