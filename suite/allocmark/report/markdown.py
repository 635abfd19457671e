"""Tables as GitHub's Markdown. Knows no particular table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allocmark.report.language import ENGLISH, Tongue
from allocmark.report.notes import EMULATED, Absent, Notes, apart, is_numeric
from allocmark.store.escape import markdown, markdown_line
from allocmark.store.table import Cell, Table


def heading(level: int, text: str) -> str:
    """Return a heading."""
    return f"{'#' * level} {markdown_line(text)}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list, one item a line."""
    return "\n".join(f"- {markdown_line(line)}" for line in lines)


def band(tongue: Tongue = ENGLISH) -> str:
    """Return the warning that stands above everything emulated."""
    return f"> **{tongue.text(EMULATED)}**"


def table(shown: Table, level: int, csv_path: str | None = None, tongue: Tongue = ENGLISH) -> str:
    """Return a table under its heading, with its notes, conditions and file below.

    What is empty for one reason throughout is named below the table, not drawn in it.
    """
    drawn, absent = apart(shown)
    rows = drawn.rows
    notes = Notes(rows)
    lines = [
        _line(markdown(tongue.text(column)) for column in drawn.columns),
        _line("---:" if is_numeric(drawn, i) else "---" for i in range(len(drawn.columns))),
        *(_line(_cell(cell, notes, tongue) for cell in row) for row in rows),
    ]
    parts = [
        heading(level, tongue.text(shown.title)),
        band(tongue) if shown.emulated else "",
        markdown_line(tongue.text(shown.about)) if shown.about else "",
        "\n".join(lines) if rows else "",
        "\n".join([*_legend(notes, tongue), *(_named(one, tongue) for one in absent)]),
        _conditions(shown.conditions, tongue),
        f"[{tongue.text('As CSV')}]({csv_path})" if csv_path else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _named(absent: Absent, tongue: Tongue) -> str:
    """Return the line on what is empty throughout, and why."""
    owners = tongue.between.join(tongue.row(first, others) for first, others in absent.owners)
    told = (tongue.text("n/a throughout"), markdown(owners), markdown(tongue.text(absent.reason)))
    return f"- {tongue.colon.join(told)}"


def _cell(cell: Cell, notes: Notes, tongue: Tongue) -> str:
    if cell.reason is not None:
        return f"n/a <sup>{notes.letter(cell)}</sup>"
    marks = notes.marks(cell)
    text = tongue.text(cell.text) if cell.text else ""
    return markdown(text) + (f" {marks}" if marks else "")


def _legend(notes: Notes, tongue: Tongue) -> list[str]:
    lines = [f"- {mark} {markdown(tongue.text(text))}" for mark, text in notes.flag_texts()]
    return lines + [
        f"- <sup>{at}</sup> {markdown(tongue.text(why))}" for why, at in notes.reasons.items()
    ]


def _conditions(conditions: Sequence[tuple[str, str]], tongue: Tongue) -> str:
    if not conditions:
        return ""
    lines = "\n".join(
        f"- {markdown(tongue.text(name))}{tongue.colon}{markdown(tongue.free(text))}"
        for name, text in conditions
    )
    title = tongue.text("Conditions")
    return f"<details><summary>{title}</summary>\n\n{lines}\n\n</details>"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
