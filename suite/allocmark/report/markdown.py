"""Tables as GitHub's Markdown. Knows no particular table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from allocmark.report.escape import markdown, markdown_line
from allocmark.report.notes import EMULATED, Notes, apart, is_numeric
from allocmark.report.table import Cell, Table


def heading(level: int, text: str) -> str:
    """Return a heading."""
    return f"{'#' * level} {markdown_line(text)}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list, one item a line."""
    return "\n".join(f"- {markdown_line(line)}" for line in lines)


def band() -> str:
    """Return the warning that stands above everything emulated."""
    return f"> **{EMULATED}**"


def table(shown: Table, level: int, csv_path: str | None = None) -> str:
    """Return a table under its heading, with its notes, conditions and file below.

    What is empty for one reason throughout is named below the table, not drawn in it.
    """
    drawn, absent = apart(shown)
    rows = drawn.rows
    notes = Notes(rows)
    lines = [
        _line(markdown(column) for column in drawn.columns),
        _line("---:" if is_numeric(drawn, i) else "---" for i in range(len(drawn.columns))),
        *(_line(_cell(cell, notes) for cell in row) for row in rows),
    ]
    named = [f"- n/a throughout: {markdown(a.names)}: {markdown(a.reason)}" for a in absent]
    parts = [
        heading(level, shown.title),
        band() if shown.emulated else "",
        markdown_line(shown.about),
        "\n".join(lines) if rows else "",
        "\n".join([*_legend(notes), *named]),
        _conditions(shown.conditions),
        f"[As CSV]({csv_path})" if csv_path else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _cell(cell: Cell, notes: Notes) -> str:
    if cell.reason is not None:
        return f"n/a <sup>{notes.letter(cell)}</sup>"
    marks = notes.marks(cell)
    return markdown(cell.text) + (f" {marks}" if marks else "")


def _legend(notes: Notes) -> list[str]:
    lines = [f"- {mark} {markdown(text)}" for mark, text in notes.flag_texts()]
    return lines + [f"- <sup>{at}</sup> {markdown(why)}" for why, at in notes.reasons.items()]


def _conditions(conditions: Sequence[tuple[str, str]]) -> str:
    if not conditions:
        return ""
    lines = "\n".join(f"- {markdown(name)}: {markdown(text)}" for name, text in conditions)
    return f"<details><summary>Conditions</summary>\n\n{lines}\n\n</details>"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
