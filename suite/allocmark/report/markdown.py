"""Tables as GitHub's Markdown. Knows no particular table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from allocmark.report.escape import markdown, markdown_line
from allocmark.report.table import Cell, Table
from allocmark.statistics import FLAG_WIDE, WIDE_INTERVAL

EMULATED = (
    "Emulated GPU: bytes and counts are the real allocators', times and context are not hardware's."
)
FLAG_TEXTS = {
    FLAG_WIDE: f"interval wider than {100 * WIDE_INTERVAL:.0f} % of the median: not settled",
    "does-not-repeat": "differs between repeats, though it should not",
    "over-20-ns": "over 20 ns: too much for a loop's own cost",
    "over-10-percent": "differs by more than 10 %",
    "not-monotonic": "a larger capacity fails or a smaller one completes",
    "above-unlimited-peak": "more than it holds where nothing is short",
    "driver-calls": "the driver was called on the way: not every one was a hit",
    "call-failed": "the call itself failed, as its notes say",
    "noisy-cpu": "too few readings came from an undisturbed core (allocmark doctor, docs/noise.md)",
    "fewer-cpus": "more threads than processors to run them",
}
_MARKS = "†‡§¶‖"


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

    Rows that are empty for one reason throughout are named below the table, not drawn in it.
    """
    rows, absent = _apart(shown)
    notes = _Notes(rows)
    lines = [
        _line(markdown(column) for column in shown.columns),
        _line("---:" if _numeric(shown, i) else "---" for i in range(len(shown.columns))),
        *(_line(map(notes.cell, row)) for row in rows),
    ]
    parts = [
        heading(level, shown.title),
        band() if shown.emulated else "",
        markdown_line(shown.about),
        "\n".join(lines) if rows else "",
        "\n".join([*notes.legend(), *absent]),
        _conditions(shown.conditions),
        f"[As CSV]({csv_path})" if csv_path else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _apart(shown: Table) -> tuple[list[tuple[Cell, ...]], list[str]]:
    """Return the rows to draw, and a line for each reason that empties whole rows."""
    labels = sum(1 for column in zip(*shown.rows, strict=True) if not any(map(_is_figure, column)))
    drawn: list[tuple[Cell, ...]] = []
    absent: dict[str, list[list[str]]] = {}
    for row in shown.rows:
        reasons = {cell.reason for cell in row[labels:] if _is_figure(cell)}
        reason = reasons.pop() if len(reasons) == 1 else None
        if reason is None:
            drawn.append(row)
        else:
            absent.setdefault(reason, []).append([cell.text for cell in row[:labels]])
    owned = Counter(row[0].text for row in shown.rows)
    lines = [
        f"- n/a throughout: {markdown('; '.join(_names(places, owned)))}: {markdown(reason)}"
        for reason, places in absent.items()
    ]
    return drawn, lines


def _names(places: Sequence[Sequence[str]], owned: Mapping[str, int]) -> list[str]:
    """Return what rows are about; an owner of rows alone stands for all of them."""
    rest: dict[str, list[str]] = {}
    for first, *others in places:
        rest.setdefault(first, []).append(" ".join(others))
    return [
        first if len(others) == owned[first] else f"{first} ({', '.join(others)})"
        for first, others in rest.items()
    ]


def _is_figure(cell: Cell) -> bool:
    return cell.value is not None or cell.reason is not None


class _Notes:
    """The footnotes of one table: a mark for each flag, a letter for each reason."""

    def __init__(self, rows: Iterable[Sequence[Cell]]) -> None:
        cells = [cell for row in rows for cell in row]
        flags = dict.fromkeys(flag for cell in cells for flag in cell.flags)
        self._marks = {flag: _mark(i) for i, flag in enumerate(flags)}
        reasons = dict.fromkeys(cell.reason for cell in cells if cell.reason is not None)
        self._letters = {reason: _letters(i) for i, reason in enumerate(reasons)}

    def cell(self, cell: Cell) -> str:
        if cell.reason is not None:
            return f"n/a <sup>{self._letters[cell.reason]}</sup>"
        marks = "".join(self._marks[flag] for flag in cell.flags)
        return markdown(cell.text) + (f" {marks}" if marks else "")

    def legend(self) -> list[str]:
        lines = [
            f"- {mark} {markdown(FLAG_TEXTS.get(flag, flag))}" for flag, mark in self._marks.items()
        ]
        lines += [
            f"- <sup>{letter}</sup> {markdown(reason)}" for reason, letter in self._letters.items()
        ]
        return lines


def _conditions(conditions: Sequence[tuple[str, str]]) -> str:
    if not conditions:
        return ""
    lines = "\n".join(f"- {markdown(name)}: {markdown(text)}" for name, text in conditions)
    return f"<details><summary>Conditions</summary>\n\n{lines}\n\n</details>"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _numeric(shown: Table, column: int) -> bool:
    return any(row[column].value is not None for row in shown.rows)


def _mark(index: int) -> str:
    """Return †, ‡ … and, after the last, doubled ones."""
    return _MARKS[index % len(_MARKS)] * (index // len(_MARKS) + 1)


def _letters(index: int) -> str:
    """Return a, b … z, aa, ab …"""
    letters = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        letters = chr(ord("a") + rest) + letters
    return letters
