"""The answer as a table for the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Group, RenderableType
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
_ON_CARD, _IN_LIMIT = "this card", "this limit"


def render(answer: ReplayAnswer) -> RenderableType:
    """Return the whole answer, ready to print."""
    recording = answer.recording
    head = [
        f"{summary(answer)[0].upper()}{summary(answer)[1:]}.",
        f"{recording.source}: {len(recording.trace)} events of device {recording.device}",
        f"replayed on {answer.where}, in {answer.seconds:.0f} s",
        f"outside the allocator: {in_words(answer.outside)}",
    ]
    if answer.card is not None:
        head.append(f"the card: {in_words(answer.card)}")
    if answer.limit is not None and answer.limited:
        head.append(f"limit of the process: {answer.limit.in_words}")
    table = Table(title="Settings, best first", title_justify="left")
    table.add_column("setting", overflow="fold")  # It gives way: a figure is never cut.
    on_card = answer.card is not None
    for column in columns(on_card, answer.limited):
        table.add_column(column, justify="right", no_wrap=True)
    for tried in answer.settings:
        if not tried.reason:
            table.add_row(*row(tried, on_card))
    parts: list[RenderableType] = [*map(Text, head), table, *map(Text, _notes(answer))]
    return Group(*parts)


def columns(on_card: bool, limited: bool = False) -> tuple[str, ...]:
    """Return the columns after the setting's name, what decides first."""
    return (_IN_LIMIT if limited else _ON_CARD, *_COLUMNS) if on_card else _COLUMNS


def row(tried: SettingAnswer, on_card: bool) -> list[str]:
    """Return a setting's cells, its name first."""
    time = tried.driver_time
    waste = tried.figures.get("waste_ratio")
    names = [f"{'capacity_' * on_card}driver_{what}" for what in ("allocs", "frees")]
    calls = [count for name in names if (count := tried.figure(name)) is not None]
    return [
        tried.name + (" *" if tried.setting.recorded else ""),
        *([_fits(tried)] if on_card else []),
        _shown(tried.smallest_card_bytes) + ("" if tried.settled else " ~"),
        _shown(tried.no_retry_card_bytes),
        _shown(tried.figure("peak_reserved_bytes"), format_bytes),
        "-" if waste is None else f"{waste:.1%}",
        str(time.calls) if time else str(sum(calls)) if calls else "-",
        "-" if time is None else _seconds(time.seconds),
    ]


def _fits(tried: SettingAnswer) -> str:
    if tried.completes is None:
        return "-"
    if not tried.completes:
        return f"fails at {tried.figure('failed_event')}"
    retries = tried.figure("capacity_retries")
    return "fits" if not retries else f"fits, {format_count(retries, 'retry', 'retries')}"


def _notes(answer: ReplayAnswer) -> list[str]:
    explained = explain(answer)
    notes = [f"- {answer.agreement.text}"]
    notes += [f"- {sentence}" for sentence in (explained.sentences if explained else ())]
    if answer.recorded is not None:
        notes.append("- *: the setting that the run was recorded under")
    if not all(tried.settled for tried in answer.settings if not tried.reason):
        notes.append("- ~: the search was cut off by its time, or could not run: it may be smaller")
    notes += [f"- {tried.name}: {IDLE}" for tried in answer.settings if IDLE in tried.in_force]
    notes += [f"- {doubt}" for doubt in answer.doubts]
    notes += [f"- {tried.name}: {tried.reason}" for tried in answer.settings if tried.reason]
    if answer.card is not None:
        notes += [
            f"- {tried.name} on this card: {tried.reasons['completes']}"
            for tried in answer.settings
            if not tried.reason and tried.completes is None and "completes" in tried.reasons
        ]
    if answer.source_of_times:
        notes.append(f"- time in the driver is an estimate: calls times {answer.source_of_times}")
    return notes


def _shown(value: int | None, written: Callable[[float], str] = format_need) -> str:
    return "-" if value is None else written(value)


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s"
