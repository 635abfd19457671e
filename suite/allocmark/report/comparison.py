"""A comparison for people and machines: tables, Markdown, CSV and JSON; conditions come first."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from allocmark.compare.model import VERDICTS, Comparison, Mean, Missing, Row, Verdict
from allocmark.compare.sensitivity import Sensitivity, sensitivities
from allocmark.report.markdown import band, bullets, heading
from allocmark.report.markdown import table as markdown_table
from allocmark.store.escape import csv_text, markdown_line
from allocmark.store.number_text import format_value
from allocmark.store.table import Cell, Table, label
from allocmark.system.units import format_count

SHOWN = 40
"""So many figures of a verdict are listed for people; CSV and JSON hold all."""
STUDY = "The GPUs differ: this is a study of two machines, and no difference is a regression."
EQUALS = (
    "Two machines of one GPU model: no difference is a regression. Which of many is the odd one, "
    "`allocmark fleet` says."
)
MOVED: tuple[Verdict, ...] = ("worse", "better", "changed")
_MOST_RUNS = 20
"""More runs a side are no advice."""
HEADINGS: dict[Verdict, str] = {
    "worse": "Worse",
    "better": "Better",
    "changed": "Changed, neither better nor worse",
    "unclear": "Unclear",
}
Namer = Callable[[Mean | Row | Missing], str]
_SERIES = "line"
"""Whose a figure is: a column only of comparisons that hold several pairs of stacks."""
_OUTPUT_NAMES = {"series_id": _SERIES, "figure_id": "place", "resolvable": "open"}
"""What CSV and JSON have called these fields from the start."""
_CSV_COLUMNS = (
    "machine", "profile", "probe", "subject", "metric", "axes", "group", "unit", "exact",
    "emulated", "a", "b", "ratio", "low", "high", "q", "verdict", "note", "command",
)  # fmt: skip


def warnings(found: Comparison) -> list[str]:
    """Return what is said before any figure."""
    if not found.study:
        return list(found.warnings)
    gpus_differ = any(change.name == "gpu" for change in found.environment)
    return [STUDY if gpus_differ else EQUALS, *found.warnings]


def summary(found: Comparison) -> str:
    """Return one sentence: how many figures have each verdict."""
    counts = found.counted()
    counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    lost = f"; {len(found.missing)} on one side only" if found.missing else ""
    moved = found.means_of(*MOVED)
    means = f"; {len(moved)} of {len(found.means)} means moved" if found.means else ""
    return f"{format_count(len(found.rows), 'figure')} compared: {counted}{lost}{means}"


def namer(found: Comparison) -> Namer:
    """Return what names a mean or figure: its id, and of which series where there are several."""
    every: list[Mean | Row | Missing] = [*found.rows, *found.missing, *found.means]
    series = [set(words.split(" ")) for words in {one.series_id for one in every} if words]
    common = set.intersection(*series) if series else set()

    def name(one: Mean | Row | Missing) -> str:
        own = [word for word in one.series_id.split(" ") if word and word not in common]
        called = one.name if isinstance(one, Mean) else one.figure_id
        return f"{called} ({' '.join(own)})" if own else called

    return name


def tables(found: Comparison, shown: int = SHOWN) -> list[Table]:
    """Return the tables that say something: sides, environment, verdicts, means, figures."""
    emulated = any(row.emulated for row in found.rows)
    name = namer(found)
    made = [_sides(found), _environment(found), _means_moved(found, name), _verdicts(found)]
    made += [_means(found, name), _reaches(found)]
    made += [_figures(found, verdict, shown, name) for verdict in HEADINGS]
    made.append(_missing(found, shown, name))
    kept = [table for table in made if table is not None and table.rows]
    if emulated:
        return [replace(table, emulated=True) for table in kept]
    return kept


def both_values(row: Row) -> tuple[str, str]:
    """Return a row's two values in words, in full where rounding would make them one."""
    a, b = format_value(row.a, row.unit), format_value(row.b, row.unit)
    if a == b and row.a != row.b:
        return f"{row.a:,.15g} {row.unit}", f"{row.b:,.15g} {row.unit}"
    return a, b


def as_markdown(found: Comparison, shown: int = SHOWN, level: int = 1) -> str:
    """Return the comparison as Markdown (GitHub's)."""
    parts = [heading(level, f"{found.a.label} and {found.b.label} compared")]
    parts.append(markdown_line(f"{summary(found)}."))
    if any(row.emulated for row in found.rows):
        parts.append(band())
    parts.append(bullets(warnings(found)))
    # The band stands once, above everything.
    parts += [
        markdown_table(replace(table, emulated=False), level + 1) for table in tables(found, shown)
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_csv(found: Comparison) -> str:
    """Return every figure as a line, numbers unrounded in the unit of the record."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = (_SERIES, *_CSV_COLUMNS) if _has_lines(found) else _CSV_COLUMNS
    writer.writerow(columns)
    for row in found.rows:
        data = _plain(row)
        data["axes"] = " ".join(f"{name}={value}" for name, value in row.axes.items())
        writer.writerow([_csv_cell(data[name]) for name in columns])
    return out.getvalue()


def as_json(found: Comparison) -> str:
    """Return all of the comparison, with the counts of verdicts."""
    data: dict[str, Any] = {**asdict(found), "verdicts": found.counted()}
    for name in ("rows", "missing", "means"):
        data[name] = [_plain(one) for one in getattr(found, name)]
    if not _has_lines(found):
        for one in (*data["rows"], *data["missing"]):
            del one[_SERIES]
    return json.dumps(data, indent=1, sort_keys=True, allow_nan=False) + "\n"


def _plain(one: Row | Missing | Mean) -> dict[str, Any]:
    return {_OUTPUT_NAMES.get(name, name): value for name, value in asdict(one).items()}


def _has_lines(found: Comparison) -> bool:
    """Whether figures say whose they are: all do or none."""
    return bool(found.rows and found.rows[0].series_id)


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


def _means_moved(found: Comparison, name: Namer) -> Table:
    moved = found.means_of(*MOVED)
    rows = [_mean_row(mean, name(mean), label(mean.verdict)) for mean in moved]
    about = "Means of many times show steps that single figures do not. Of B over A, with interval."
    columns = ("mean of", "times", "B over A", "verdict")
    return _table("moved", f"Moved on average: {len(rows)}", columns, rows, about)


def _means(found: Comparison, name: Namer) -> Table:
    rows = [
        [
            *_mean_row(mean, name(mean), label(mean.verdict)),
            Cell(step(mean.shows), mean.shows, "ratio"),
        ]
        for mean in found.means
        if mean.scope != "class"
    ]
    about = (
        "Geometric means of B over A, of times. Shows: the smallest step that such a mean is "
        "expected to show 95 % of the time with these runs."
    )
    columns = ("mean of", "times", "B over A", "verdict", "shows")
    return _table("means", "On average", columns, rows, about)


def _mean_row(mean: Mean, name: str, verdict: Cell) -> list[Cell]:
    text = f"{percent(mean.ratio)} ({percent(mean.low)} to {percent(mean.high)})"
    return [
        label(name),
        Cell(str(mean.figures), float(mean.figures), "count"),
        Cell(text, mean.ratio, "ratio", mean.low, mean.high),
        verdict,
    ]


def _reaches(found: Comparison) -> Table:
    rows = [
        [label(one.group), Cell(str(one.unclear), float(one.unclear), "count"),
         Cell(str(one.figures), float(one.figures), "count"), Cell(step(one.half), one.half),
         Cell(step(one.least), one.least), label(wanted(one))]
        for one in sensitivities(found)
    ]  # fmt: skip
    about = (
        "Noise: what such a figure differs by between these runs with nothing changed (half of its "
        "interval). Runs a side: so many show what matters of a single figure 95 % of the time."
    )
    columns = ("figures", "unclear", "of", "noise", "what matters", "runs a side")
    return _table("reach", "What these runs cannot tell", columns, rows, about)


def _figures(found: Comparison, verdict: Verdict, shown: int, name: Namer) -> Table:
    chosen = found.of(verdict)
    rows = [
        [label(name(row)), Cell(both_values(row)[0], row.a, row.unit),
         Cell(both_values(row)[1], row.b, row.unit), _ratio_cell(row), label(row.note),
         label(row.command)]
        for row in chosen[:shown]
    ]  # fmt: skip
    cut = (
        f" The first {shown} of {len(chosen)}: exact ones, then bytes and counts, then times."
        if len(chosen) > shown
        else ""
    )
    about = f"The interval is that of B over A.{cut}"
    columns = ("figure", "A", "B", "B over A", "why", "again")
    return _table(verdict, f"{HEADINGS[verdict]}: {len(chosen)}", columns, rows, about)


def _missing(found: Comparison, shown: int, name: Namer) -> Table:
    rows = [
        [label(name(one)), label(one.only.upper()), label(one.reason)]
        for one in found.missing[:shown]
    ]
    title = f"On one side only: {len(found.missing)}"
    return _table("missing", title, ("figure", "only in", "the other says"), rows)


def _ratio_cell(row: Row) -> Cell:
    if row.ratio is None:
        return Cell("-")
    if row.low is None or row.high is None:
        return Cell(percent(row.ratio), row.ratio, "ratio")
    text = f"{percent(row.ratio)} ({percent(row.low)} to {percent(row.high)})"
    return Cell(text, row.ratio, "ratio", row.low, row.high)


_MANYFOLD = 10.0


def percent(ratio: float) -> str:
    """Return ``+4.5 %``, or how many times where percents no longer say anything."""
    if ratio >= _MANYFOLD:
        return f"{ratio:.3g} times"
    change = 100 * (ratio - 1)
    return f"{change:+.1f} %" if change else "0 %"


def step(share: float) -> str:
    """Return the size of a step, either way: ``12 %``."""
    if share + 1 >= _MANYFOLD:
        return f"{share + 1:.3g} times"
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"


def wanted(one: Sensitivity) -> str:
    """Return how many runs a side would tell what matters of a single figure."""
    if one.runs is None:
        return "these"
    return f"{one.runs}" if one.runs <= _MOST_RUNS else f"over {_MOST_RUNS}"


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
