"""The answer as a table for the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from allocmark.replaying.answer import Answer, SettingAnswer
from allocmark.replaying.outside import in_words
from allocmark.replaying.run import summary
from allocmark.units import format_bytes

_COLUMNS = (
    *("setting", "peak reserved", "waste", "driver calls", "in the driver", "smallest card"),
    *("with retries", "fits"),
)
_WORDS = ("setting", "fits")


def render(answer: Answer) -> RenderableType:
    """Return the whole answer, ready to print."""
    recording = answer.recording
    head = [
        f"{recording.source}: {len(recording.trace)} events of device {recording.device}",
        f"replayed on {answer.where}, in {answer.seconds:.0f} s",
        f"outside the allocator: {in_words(answer.outside)}",
    ]
    if answer.card is not None:
        head.append(f"the card: {in_words(answer.card)}")
    table = Table(title="Settings, best first", title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in _WORDS else "right", overflow="fold")
    for one in answer.settings:
        if not one.reason:
            table.add_row(*_row(one))
    parts: list[RenderableType] = [*map(Text, head), table, *map(Text, _notes(answer))]
    return Group(*parts)


def _row(one: SettingAnswer) -> list[str]:
    time = one.driver_time
    waste = one.figures.get("waste_ratio")
    calls = [one.figure("driver_allocs"), one.figure("driver_frees")]
    counted = [count for count in calls if count is not None]
    return [
        one.name + (" *" if one.setting.recorded else ""),
        _bytes(one.figure("peak_reserved_bytes")),
        "-" if waste is None else f"{waste:.1%}",
        str(time.calls) if time else str(sum(counted)) if counted else "-",
        "-" if time is None else _seconds(time.seconds),
        _bytes(one.smallest_card_bytes),
        _bytes(one.tight_card_bytes),
        _fits(one),
    ]


def _fits(one: SettingAnswer) -> str:
    if one.completes is None:
        return "-"
    if not one.completes:
        return f"no, at event {one.figure('failed_event')}"
    retries = one.figure("capacity_retries")
    return "yes" if not retries else f"yes, {retries} retries"


def _notes(answer: Answer) -> list[str]:
    told = [f"- {summary(answer)}", f"- {answer.agreement}"]
    if answer.recorded is not None:
        told.append("- *: the setting that the run was recorded under")
    told += [f"- {doubt}" for doubt in answer.doubts]
    told += [f"- {one.name}: {one.reason}" for one in answer.settings if one.reason]
    if any(one.driver_time for one in answer.settings):
        source = next(one.driver_time.source for one in answer.settings if one.driver_time)
        told.append(f"- time in the driver is an estimate: calls times {source}")
    return told


def _bytes(value: int | None) -> str:
    return "-" if value is None else format_bytes(value)


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s"


def show(answer: Answer, console: Console | None = None) -> None:
    """Print it."""
    (console or Console()).print(render(answer))
