"""The answer as a table for the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from allocmark.experiments.shared.allocator_setting import IDLE
from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.replays.explanation import explain
from allocmark.replays.non_allocator_memory import in_words
from allocmark.replays.summary import summary
from allocmark.system.units import format_bytes, format_count, format_need

_COLUMNS = (
    *("smallest\ncard", "without\nretry", "peak\nreserved"),
    *("waste", "driver\ncalls", "driver\ntime"),
)
MOST_LINES = 30
_FIRST = 3
"""Sentences on why it failed that come before what the answer rests on."""
_ON_CARD, _IN_LIMIT = "this card", "this limit"


def text(answer: ReplayAnswer, width: int, verbose: bool = False) -> str:
    """Return what a terminal of that width shows: the answer, the table, and what it rests on.

    Without `verbose` notes are left out, the last ones first, where it would be more than
    `MOST_LINES`; how many is said.
    """
    sentence = summary(answer)
    top = _printed([Text(f"{sentence[0].upper()}{sentence[1:]}."), Text(), _table(answer)], width)
    top.append("")
    notes = [_printed([Text(note)], width) for note in _notes(answer)]
    shown = notes if verbose else _fitting(notes, MOST_LINES - len(top))
    left_out = format_count(len(notes) - len(shown), "more note")
    more = [f"{left_out} with --verbose"] if len(shown) < len(notes) else []
    return "\n".join([*top, *(line for note in shown for line in note), *more]) + "\n"


def _fitting(notes: Sequence[Sequence[str]], lines: int) -> Sequence[Sequence[str]]:
    """Return the first notes that fill no more than so many lines, one left for what is not."""
    if sum(map(len, notes)) <= lines:
        return notes
    shown: list[Sequence[str]] = []
    for note in notes:
        if sum(map(len, shown)) + len(note) > lines - 1:
            break
        shown.append(note)
    return shown


def _printed(parts: Sequence[RenderableType], width: int) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=width, highlight=False).print(*parts, sep="\n")
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def _table(answer: ReplayAnswer) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    recorded = " (*: recorded)" if answer.recorded is not None else ""
    # It gives way: a figure is never cut.
    table.add_column(f"setting{recorded}", overflow="fold")
    on_card = answer.card is not None
    for column in columns(on_card, answer.limited):
        table.add_column(column, justify="right", no_wrap=True)
    for tried in answer.settings:
        if not tried.reason:
            table.add_row(*row(tried, on_card))
    return table


def columns(on_card: bool, limited: bool = False) -> tuple[str, ...]:
    """Return the columns after the setting's name, what decides first."""
    return (_IN_LIMIT if limited else _ON_CARD, *_COLUMNS) if on_card else _COLUMNS


def row(tried: SettingAnswer, on_card: bool) -> list[str]:
    """Return a setting's cells, its name first."""
    time = tried.driver_time
    waste = tried.figures.get("waste_ratio")
    # It is that of all its bytes: in each cell it would leave the names no room.
    off = f" ({tried.margin})" if tried.margin else ""
    names = [f"{'capacity_' * on_card}driver_{what}" for what in ("allocs", "frees")]
    calls = [count for name in names if (count := tried.figure(name)) is not None]
    return [
        tried.name + (" *" if tried.setting.recorded else "") + off,
        *([_fits(tried)] if on_card else []),
        _shown(tried.smallest_card_bytes) + ("" if tried.settled else " ~"),
        _shown(tried.no_retry_card_bytes),
        _shown(tried.figure("peak_reserved_bytes"), format_bytes),
        "-" if waste is None else f"{waste:.1%}",
        str(time.calls) if time else str(sum(calls)) if calls else "-",
        "-" if time is None else _seconds(time.seconds),
    ]


def _fits(tried: SettingAnswer) -> str:
    if tried.undecided:
        return "undecided"
    if tried.completes is None:
        return "-"
    if not tried.completes:
        return f"fails at {tried.figure('failed_event')}"
    retries = tried.figure("capacity_retries")
    return "fits" if not retries else f"fits, {format_count(retries, 'retry', 'retries')}"


def _notes(answer: ReplayAnswer) -> list[str]:
    """Return what stands below the table, what matters most first."""
    explained = explain(answer)
    why = list(explained.sentences if explained else ())
    replayed = [tried for tried in answer.settings if not tried.reason]
    notes = [*why[:_FIRST], answer.agreement.text]
    notes += [f"{tried.name}: {tried.reason}" for tried in answer.settings if tried.reason]
    if answer.card is not None:
        notes += [
            f"{tried.name} on this card: {tried.reasons['completes']}"
            for tried in replayed
            if tried.completes is None and "completes" in tried.reasons
        ]
    if not all(tried.settled for tried in replayed):
        notes.append("~: the search was cut off by its time, or could not run: it may be smaller")
    if idle := [tried.name for tried in replayed if IDLE in tried.in_force]:
        notes.append(f"{', '.join(idle)}: {IDLE}")
    notes += answer.doubts
    notes.append(f"outside the allocator: {in_words(answer.outside)}")
    if answer.card is not None:
        notes.append(f"the card: {in_words(answer.card)}")
    if answer.limit is not None and answer.limited:
        notes.append(f"limit of the process, kept under every setting: {answer.limit.in_words}")
    recording = answer.recording
    notes.append(
        f"{recording.source}: {len(recording.trace)} events of device {recording.device}, replayed "
        f"on {answer.where}, in {answer.seconds:.0f} s"
    )
    notes += why[_FIRST:]
    if answer.source_of_times:
        notes.append(f"time in the driver is an estimate: calls times {answer.source_of_times}")
    return [f"- {note}" for note in notes]


def _shown(value: int | None, written: Callable[[float], str] = format_need) -> str:
    return "-" if value is None else written(value)


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s"
