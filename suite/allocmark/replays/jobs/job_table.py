"""The answer for a job in text: its ranks, its settings, and what it rests on."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from allocmark.replays.answer import SettingAnswer
from allocmark.replays.explanation import explain
from allocmark.replays.jobs.job_answer import JobAnswer, RankAnswer, stands_for, summary
from allocmark.replays.non_allocator_memory import in_words
from allocmark.system.units import format_bytes, format_need

MOST_NOTES = 16
RANK_COLUMNS = ("rank", "peak allocated", "peak reserved", "smallest card", "on its card", "under")
SETTING_COLUMNS = ("setting", "job's smallest card", "without retry", "every rank", "decided by")
_FIRST = 3


def text(job: JobAnswer, width: int, verbose: bool = False) -> str:
    """Return what a terminal of that width shows."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False)
    sentence = summary(job)
    console.print(f"{sentence[0].upper()}{sentence[1:]}.\n", markup=False)
    console.print(_table(RANK_COLUMNS, rank_rows(job)))
    console.print()
    console.print(_table(SETTING_COLUMNS, setting_rows(job)))
    console.print()
    said = notes(job)
    for note in said if verbose else said[:MOST_NOTES]:
        console.print(f"- {note}", markup=False)
    if not verbose and len(said) > MOST_NOTES:
        console.print(f"{len(said) - MOST_NOTES} more notes with --verbose", markup=False)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def markdown(job: JobAnswer, verbose: bool = False) -> str:
    """Return the answer as Markdown, for a comment or a page of notes."""
    sentence = summary(job)
    lines = [f"**{sentence[0].upper()}{sentence[1:]}.**", ""]
    for columns, rows in (
        (RANK_COLUMNS, rank_rows(job)),
        (SETTING_COLUMNS, setting_rows(job)),
    ):
        lines.append(f"| {' | '.join(columns)} |")
        lines.append(f"| --- |{' ---: |' * (len(columns) - 1)}")
        lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in r)} |" for r in rows]
        lines.append("")
    said = notes(job)
    lines += [f"- {note}" for note in (said if verbose else said[:MOST_NOTES])]
    return "\n".join(lines) + "\n"


def explanations(job: JobAnswer) -> str:
    """Return what the memory of each rank is made of, and who holds it."""
    lines = []
    for rank in job.ranks:
        explained = explain(rank.answer)
        name = rank.of.name
        if len(rank.of.ranks) > 1:
            name += f" (and as it {len(rank.of.ranks)} ranks: {stands_for(rank)})"
        lines.append(f"{name}, {rank.answer.recording.source}:")
        lines += [f"- {sentence}" for sentence in (explained.sentences if explained else ())]
        lines += [f"- {doubt}" for doubt in rank.answer.doubts]
        lines.append("")
    return "\n".join(lines)


def rank_rows(job: JobAnswer) -> list[list[str]]:
    """Return a row for each rank, under the setting that is recommended for all."""
    best = job.settings[0] if job.settings else None
    return [_rank_row(rank, best) for rank in job.ranks]


def setting_rows(job: JobAnswer) -> list[list[str]]:
    """Return a row for each setting that was replayed for every rank, best first."""
    rows = []
    for one in job.settings:
        decides = job.deciding(one)
        rows.append(
            [
                one.name + " *" * one.setting.recorded,
                _need(one.smallest_card_bytes) + ("" if one.settled else " ~"),
                _need(one.no_retry_card_bytes),
                _fits(one),
                stands_for(decides) if decides else "-",
            ]
        )
    return rows


def notes(job: JobAnswer) -> list[str]:
    """Return what stands below the tables: why, of the rank that decides, then what is open."""
    found: dict[str, None] = {}
    decides = job.deciding(job.settings[0]) if job.settings else None
    order = sorted(job.ranks, key=lambda rank: rank is not decides)
    for rank in order[:1]:
        explained = explain(rank.answer)
        for sentence in (explained.sentences if explained else ())[:_FIRST]:
            found[f"{rank.of.name}: {sentence}"] = None
    for rank in order:
        if rank.answer.agreement.contradiction:
            found[f"{rank.of.name}: {rank.answer.agreement.text}"] = None
        for one in rank.answer.settings:
            if one.reason:
                found[f"{one.name}: {one.reason}"] = None
        for doubt in rank.answer.doubts:
            found[doubt] = None
        found[f"outside the allocator: {in_words(rank.answer.outside)}"] = None
    return list(found)


def _rank_row(rank: RankAnswer, best: SettingAnswer | None) -> list[str]:
    one = rank.setting(best.name) if best else None
    peaks = [
        None if one is None else one.figure(f"peak_{what}_bytes")
        for what in ("allocated", "reserved")
    ]
    return [
        stands_for(rank),
        *(("-" if peak is None else format_bytes(peak)) for peak in peaks),
        _need(one.smallest_card_bytes if one else None),
        _fits(one) if one else "-",
        one.name if one else "-",
    ]


def _fits(one: SettingAnswer) -> str:
    if one.undecided:
        return "undecided"
    return {None: "-", True: "fits", False: "does not fit"}[one.completes]


def _need(value: int | None) -> str:
    return "-" if value is None else format_need(value)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(columns):
        is_text = not place
        table.add_column(name, justify="left" if is_text else "right", no_wrap=not is_text)
    for row in rows:
        table.add_row(*row)
    return table
