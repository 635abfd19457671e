"""What changed, as text, Markdown or JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping

from rich import box
from rich.console import Console
from rich.table import Table

from allocmark.replays.diff import own_files
from allocmark.replays.diff.by_line import LineChange
from allocmark.replays.diff.job_diff import Figure, JobDiff, growth, signed
from allocmark.system.units import format_bytes, format_need

_WIDTH = 110
_MOST_LINES = 12
_MOST_DOUBTS = 6
_NAMES = {
    "smallest_card_bytes": "smallest card",
    "peak_requested_bytes": "peak requested",
    "peak_allocated_bytes": "peak allocated",
    "peak_reserved_bytes": "peak reserved",
}
_FIGURES = ("figure", "A", "B", "change")
_LINES = ("held at the peak by", "A", "B", "change")


def sentence(diff: JobDiff) -> str:
    """Say whether the smallest card grew, by how much, and whether that is too much."""
    card = diff.card
    if card.before is None or card.after is None:
        return "The smallest card of one of the two is not known: see the reasons."
    if card.before == card.after:
        return f"The smallest card is the same: {format_need(card.after)} under {diff.setting}."
    word = "grew" if card.after > card.before else "shrank"
    text = f"The smallest card {word} from {format_need(card.before)} to {format_need(card.after)}"
    text += f", {growth(card)}, under {diff.setting}"
    if diff.limit is None:
        return f"{text}."
    return f"{text}, {'beyond' if diff.grown else 'within'} the limit of {diff.limit.text}."


def text(diff: JobDiff) -> str:
    """Return what a terminal shows."""
    stream = io.StringIO()
    console = Console(file=stream, width=_WIDTH, highlight=False)
    console.print(f"{sentence(diff)}\n", markup=False)
    for columns, rows in (_figures(diff), _lines(diff)):
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for place, name in enumerate(columns):
            justify = "right" if place else "left"
            table.add_column(name, justify=justify, no_wrap=bool(place), overflow="fold")  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*row)
        console.print(table)
        console.print()
    for note in _notes(diff):
        console.print(f"- {note}", markup=False)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def markdown(diff: JobDiff) -> str:
    """Return a comment for a pull request: figures, lines with their call stacks, what is open."""
    lines = [f"**{sentence(diff)}**", ""]
    for columns, rows in (_figures(diff), _lines(diff)):
        lines.append(f"| {' | '.join(columns)} |")
        lines.append(f"| --- |{' ---: |' * (len(columns) - 1)}")
        lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
        lines.append("")
    stacks = [one for one in diff.lines[:_MOST_LINES] if one.change_bytes and one.stack]
    if stacks:
        lines += ["<details><summary>Call stacks, innermost first</summary>", "", "```"]
        for one in stacks:
            stack = own_files.short(one.stack, _files(one, diff))
            lines += [signed(one.change_bytes), *(f"    {frame}" for frame in stack)]
        lines += ["```", "", "</details>", ""]
    lines += [f"- {note}" for note in _notes(diff)]
    return "\n".join(lines) + "\n"


def _figures(diff: JobDiff) -> tuple[tuple[str, ...], list[list[str]]]:
    return _FIGURES, [
        [_NAMES[one.name], _bytes(one, one.before), _bytes(one, one.after), growth(one)]
        for one in diff.figures
    ]


def _bytes(figure: Figure, value: int | None) -> str:
    if value is None:
        return "-"
    return format_need(value) if figure.name == "smallest_card_bytes" else format_bytes(value)


def _lines(diff: JobDiff) -> tuple[tuple[str, ...], list[list[str]]]:
    changed = [one for one in diff.lines if one.change_bytes]
    rows = [
        [own_files.shown(one.stack, _files(one, diff)), *_sides(one), signed(one.change_bytes)]
        for one in changed
    ]
    rows, rest = rows[:_MOST_LINES], changed[_MOST_LINES:]
    if rest:
        total = sum(one.change_bytes for one in rest)
        rows.append([f"{len(rest)} more places", "", "", signed(total)])
    held = sum(one.change_bytes for one in changed)
    rows.append(["all", "", "", signed(held)])
    return _LINES, rows


def _files(one: LineChange, diff: JobDiff) -> list[str]:
    """Return the program's files in the recording that a change is named by."""
    held = (other.after if one.after else other.before for other in diff.lines)
    return own_files.of(each.stack for each in held if each)


def _sides(one: LineChange) -> list[str]:
    return [
        "-" if held is None else f"{format_bytes(held.size_bytes)} in {held.blocks}"
        for held in (one.before, one.after)
    ]


def _notes(diff: JobDiff) -> list[str]:
    first, second = diff.ranks
    compared = f"{first.of.name} of A and {second.of.name} of B"
    notes = [f"by line: {compared}, at the peak of requested bytes of each; bytes in blocks"]
    doubts = diff.doubts
    notes += doubts[:_MOST_DOUBTS]
    if len(doubts) > _MOST_DOUBTS:
        notes.append(f"{len(doubts) - _MOST_DOUBTS} more doubts in --format json")
    return notes


def _cell(value: str) -> str:
    return value.replace("|", "\\|").replace("<", "&lt;")


FORMATS: Mapping[str, Callable[[JobDiff], str]] = {
    "text": text,
    "md": markdown,
    "json": lambda diff: json.dumps(diff.to_json(), indent=1, allow_nan=False) + "\n",
}
