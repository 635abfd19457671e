"""Tables as GitHub's Markdown. Knows no particular table."""

from __future__ import annotations

from collections.abc import Iterable

from allocmark.report.notes import EMULATED, Notes, apart, is_numeric
from allocmark.report.sharing import Conditions, own
from allocmark.report.translation import rendered
from allocmark.store.escape import markdown, markdown_line
from allocmark.store.table import Cell, Table
from allocmark.system.message import Language, Message, Recorded, Text


def heading(level: int, text: str) -> str:
    """Return a heading."""
    return f"{'#' * level} {markdown_line(text)}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list, one item a line."""
    return "\n".join(f"- {markdown_line(line)}" for line in lines)


def shown(text: Text, language: Language) -> str:
    """Return a text in a language, as Markdown that shows this very text."""
    return markdown(rendered(text, language))


def band(language: Language = "en", text: Text = EMULATED) -> str:
    """Return a warning, by default the one that stands above everything emulated."""
    return f"> **{rendered(text, language)}**"


def table(
    whole: Table,
    level: int,
    csv_path: str | None = None,
    language: Language = "en",
    common: Conditions = (),
    once: Conditions = (),
    once_at: str = "",
) -> str:
    """Return a table under its heading, with its notes, conditions and file below.

    What is empty for one reason throughout is named below the table, not drawn in it. Of its
    conditions those are left out that are `common`, and to those said `once` there is a link into
    the file `once_at`: who calls says both for all tables.
    """
    drawn, absent = apart(whole)
    rows = drawn.rows
    notes = Notes(rows)
    lines = [
        _line(shown(column, language) for column in drawn.columns),
        _line("---:" if is_numeric(drawn, i) else "---" for i in range(len(drawn.columns))),
        *(_line(_cell(cell, notes, language) for cell in row) for row in rows),
    ]
    legend = notes.flag_texts()
    legend += [(f"<sup>{letter}</sup>", reason) for reason, letter in notes.reasons.items()]
    below = [f"- {mark} {shown(text, language)}" for mark, text in legend]
    for one in absent:
        text = Message("n/a throughout: {names}: {why}", names=one.names, why=one.reason)
        below.append(f"- {shown(text, language)}")
    parts = [
        heading(level, rendered(whole.title, language)),
        band(language) if whole.emulated else "",
        markdown_line(rendered(whole.about, language)) if whole.about else "",
        "\n".join(lines) if rows else "",
        "\n".join(below),
        _conditions(own(whole, common), language, once, once_at),
        f"[{rendered(Message('As CSV'), language)}]({csv_path})" if csv_path else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _cell(cell: Cell, notes: Notes, language: Language) -> str:
    if cell.reason is not None:
        return f"n/a <sup>{notes.letter(cell)}</sup>"
    marks = notes.marks(cell)
    return shown(cell.text, language) + (f" {marks}" if marks else "")


def conditions(found: Iterable[tuple[str, Text]], language: Language) -> str:
    """Return conditions as a list."""
    texts = (Message("{name}: {text}", name=Recorded(name), text=text) for name, text in found)
    return "\n".join(f"- {shown(text, language)}" for text in texts)


def numbered(found: Conditions, language: Language) -> str:
    """Return conditions as a list in which each has a number, and a place that is named by it."""
    lines = conditions(found, language).splitlines()
    return "\n".join(
        f'- <a id="{_place(number)}"></a>\\[{number}\\] {line.removeprefix("- ")}'
        for number, line in enumerate(lines, 1)
    )


def _place(number: int) -> str:
    return f"condition-{number}"


def _conditions(found: Conditions, language: Language, once: Conditions, once_at: str) -> str:
    if not found:
        return ""
    title = rendered(Message("Conditions"), language)
    lines = [conditions((pair for pair in found if pair not in once), language)]
    for name, text in found:
        if (name, text) in once:
            number = once.index((name, text)) + 1
            name_shown = shown(Recorded(name), language)
            lines.append(f"- {name_shown}: [\\[{number}\\]]({once_at}#{_place(number)})")
    listed = "\n".join(line for line in lines if line)
    return f"<details><summary>{title}</summary>\n\n{listed}\n\n</details>"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
