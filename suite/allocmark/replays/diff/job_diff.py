"""What changed between two recordings, or two jobs: peaks, smallest card, and who holds more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from allocmark.replays.answer import SettingAnswer
from allocmark.replays.command import ReplayRequest
from allocmark.replays.diff import by_line
from allocmark.replays.diff.by_line import LineChange
from allocmark.replays.jobs import job_command
from allocmark.replays.jobs.job_answer import JobAnswer, RankAnswer
from allocmark.system.errors import EXIT_FINE, EXIT_REGRESSION, EXIT_UNCLEAR, AllocmarkError
from allocmark.system.units import format_bytes, parse_bytes

SCHEMA = 1
FORMAT = "allocmark-diff"
_PEAKS = ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")


@dataclass(frozen=True, slots=True)
class Figure:
    """A count of bytes before and after, None where it is not known."""

    name: str
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Limit:
    """By how much the smallest card may grow: bytes, or percent of what it was."""

    text: str
    growth_bytes: int | None = None
    percent: float | None = None

    def most(self, before_bytes: int) -> int:
        """Return the largest card that is no regression."""
        if self.growth_bytes is not None:
            return before_bytes + self.growth_bytes
        return int(before_bytes * (1 + (self.percent or 0) / 100))


@dataclass(frozen=True, slots=True)
class JobDiff:
    """Two jobs under one setting. `ranks` are the two that are compared line by line."""

    setting: str
    before: JobAnswer
    after: JobAnswer
    ranks: tuple[RankAnswer, RankAnswer]
    figures: Sequence[Figure]
    lines: Sequence[LineChange]
    limit: Limit | None

    @property
    def card(self) -> Figure:
        """The smallest card."""
        return next(figure for figure in self.figures if figure.name == "smallest_card_bytes")

    @property
    def grown(self) -> bool | None:
        """Whether the smallest card is beyond the limit, None where one is not known.

        It is not where a replay contradicts its recording.
        """
        card = self.card
        ranks = [*self.before.ranks, *self.after.ranks]
        contradicted = any(rank.answer.agreement.contradiction for rank in ranks)
        if card.before is None or card.after is None or contradicted:
            return None
        return self.limit is not None and card.after > self.limit.most(card.before)

    @property
    def exit_code(self) -> int:
        """What a check of a pull request ends with."""
        if self.grown is None:
            return EXIT_UNCLEAR
        return EXIT_REGRESSION if self.grown else EXIT_FINE

    @property
    def doubts(self) -> list[str]:
        """What the comparison leaves open."""
        found: dict[str, None] = {}
        for side, job in (("A", self.before), ("B", self.after)):
            for rank in job.ranks:
                for one in rank.answer.settings:
                    if one.reason:
                        found[f"{side}, {one.name}: {one.reason}"] = None
                if rank.answer.agreement.contradiction:
                    found[f"{side}, {rank.of.name}: {rank.answer.agreement.text}"] = None
                for doubt in rank.answer.doubts:
                    found[doubt] = None
        return list(found)

    def to_json(self) -> dict[str, Any]:
        """Return plain data; `lines` are all, and their changes add up to that of the peak."""
        first, second = self.ranks
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "setting": self.setting,
            "figures": [asdict(figure) for figure in self.figures],
            "limit": self.limit.text if self.limit else None,
            "grown_beyond_limit": self.grown,
            "ranks_compared": [first.of.name, second.of.name],
            "lines": [
                {"change_bytes": one.change_bytes, "stack": list(one.stack), **asdict(one)}
                for one in self.lines
            ],
            "doubts": self.doubts,
        }


def parse_limit(text: str) -> Limit:
    """Return the limit that ``1%`` or ``256MiB`` stands for. Raises `AllocmarkError`."""
    if match := _PERCENT.fullmatch(text):
        return Limit(text, percent=float(match[1]))
    try:
        return Limit(text, growth_bytes=parse_bytes(text))
    except AllocmarkError:
        raise AllocmarkError(f"{text!r} is no limit: write it as 1% or 256MiB") from None


def compare(
    before: Path, after: Path, setting: str | None, limit: str | None, outside: str | None
) -> JobDiff:
    """Replay both under a setting, by default the one that B was recorded under.

    Raises `AllocmarkError` for what cannot be read, and for a setting that is not known.
    """
    allowed = parse_limit(limit) if limit is not None else None
    found = []
    for path in (before, after):
        request = ReplayRequest(
            path, settings=(setting,) if setting else (), outside=outside, emulated=True
        )
        found.append(job_command.find([path], request, of_recorded=setting is None))
    first, second = found
    return of(first, second, setting, allowed)


def of(before: JobAnswer, after: JobAnswer, setting: str | None, limit: Limit | None) -> JobDiff:
    """Return what changed between two jobs that have been replayed."""
    pair = [_answer(job, setting) for job in (before, after)]
    deciding = after.deciding(pair[1]) if pair[1] else None
    second = deciding or after.ranks[0]
    alike = (rank for rank in before.ranks if second.of.rank in rank.of.ranks)
    decided_before = before.deciding(pair[0]) if pair[0] else None
    first = next(alike, decided_before or before.ranks[0])
    peaks = [by_line.at_peak(rank.answer.recording) for rank in (first, second)]
    cards = [None if one is None else one.smallest_card_bytes for one in pair]
    figures = [Figure("smallest_card_bytes", *cards)]
    figures += [
        Figure(name, *(None if one is None else one.figure(name) for one in pair))
        for name in _PEAKS
    ]
    names = [one.name for one in pair if one is not None]
    return JobDiff(
        setting=" and ".join(dict.fromkeys(names)) or (setting or "no setting"),
        before=before,
        after=after,
        ranks=(first, second),
        figures=figures,
        lines=by_line.align(peaks[0].held, peaks[1].held),
        limit=limit,
    )


def _answer(job: JobAnswer, setting: str | None) -> SettingAnswer | None:
    if setting is not None:
        return next((one for one in job.settings if one.name == setting), None)
    return job.recorded or next(iter(job.settings), None)


def growth(figure: Figure) -> str:
    """Return the change of a figure in words, with its sign."""
    if figure.before is None or figure.after is None:
        return "not known"
    change = figure.after - figure.before
    share = f" ({change / figure.before:+.1%})" if figure.before and change else ""
    return f"{signed(change)}{share}"


def signed(change_bytes: int) -> str:
    """Return bytes with their sign, 0 as such."""
    return f"+{format_bytes(change_bytes)}" if change_bytes > 0 else format_bytes(change_bytes)
