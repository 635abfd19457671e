"""One answer for the ranks of a job: what lets every one of them live, and which decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from allocmark.recording.job import listed
from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.replays.explanation import explain
from allocmark.replays.jobs.rank_files import RankFile
from allocmark.replays.ranking import alike, ranked
from allocmark.system.units import format_bytes, format_need

SCHEMA = 1
FORMAT = "allocmark-job"
_LARGEST = (
    *("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes"),
    *("smallest_capacity_bytes", "capacity_retries", "retries", "failed_event"),
)


@dataclass(frozen=True, slots=True)
class RankAnswer:
    """A rank, or several that allocate alike, and what a replay of it says."""

    of: RankFile
    answer: ReplayAnswer

    def setting(self, name: str) -> SettingAnswer | None:
        """Return what it needs under a setting, None where that was not tried."""
        return next((one for one in self.answer.settings if one.name == name), None)


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """All ranks. `settings` are of the whole job, best first, as one rank's are.

    A setting's figures are the largest of any rank, None where a rank has none.
    """

    ranks: Sequence[RankAnswer]
    settings: Sequence[SettingAnswer]

    @property
    def count(self) -> int:
        """How many ranks are answered for."""
        return sum(max(1, len(rank.of.ranks)) for rank in self.ranks)

    @property
    def recorded(self) -> SettingAnswer | None:
        """The setting that all were recorded under, None where they differ or it is not known."""
        return next((one for one in self.settings if one.setting.recorded), None)

    @property
    def world_size(self) -> int | None:
        """How many ranks the job has, None where no recording tells."""
        told = (rank.answer.recording.environment.get("job") for rank in self.ranks)
        sizes = [job.get("world_size") for job in told if isinstance(job, Mapping)]
        return max((size for size in sizes if isinstance(size, int)), default=None)

    def deciding(self, setting: SettingAnswer) -> RankAnswer | None:
        """Return the rank that needs the largest card under a setting, None where one has none."""
        known = [(rank, rank.setting(setting.name)) for rank in self.ranks]
        if any(one is None or one.smallest_card_bytes is None for _, one in known):
            return None
        return max(known, key=lambda pair: (pair[1].smallest_card_bytes or 0) if pair[1] else 0)[0]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "answer": summary(self),
            "recommended": recommended(self),
            "world_size": self.world_size,
            "ranks_answered_for": self.count,
            "settings": [self._setting_json(one) for one in self.settings],
            "ranks": [_rank_json(rank) for rank in self.ranks],
        }

    def _setting_json(self, one: SettingAnswer) -> dict[str, Any]:
        decides = self.deciding(one)
        return {
            "setting": one.name,
            "line": one.setting.line,
            "recorded": one.setting.recorded,
            "smallest_card_bytes": one.smallest_card_bytes,
            "no_retry_card_bytes": one.no_retry_card_bytes,
            "peak_reserved_bytes": one.figures.get("peak_reserved_bytes"),
            "fits": one.completes,
            "reason": one.reason or None,
            "decided_by": decides.of.name if decides else None,
        }


def of(ranks: Sequence[RankAnswer]) -> JobAnswer:
    """Return the answer for a job: the settings that were tried for every rank, ranked."""
    names = [one.name for one in ranks[0].answer.settings]
    whole = [found for name in names if (found := _over_ranks(name, ranks)) is not None]
    known = all(rank.answer.recording.setting is not None for rank in ranks)
    return JobAnswer(ranks, ranked(whole, known))


def _over_ranks(name: str, ranks: Sequence[RankAnswer]) -> SettingAnswer | None:
    found = [one for rank in ranks if (one := rank.setting(name)) is not None]
    if len(found) < len(ranks):
        return None
    figures = {
        figure: max(one.figures[figure] for one in found)
        for figure in _LARGEST
        if all(figure in one.figures for one in found)
    }
    if all("completes" in one.figures for one in found):
        figures["completes"] = min(one.figures["completes"] for one in found)
    cards = [one.smallest_card_bytes for one in found]
    retried = [one.no_retry_card_bytes for one in found]
    times = [one.driver_time for one in found if one.driver_time is not None]
    first = found[0]
    return SettingAnswer(
        replace(first.setting, recorded=all(one.setting.recorded for one in found)),
        figures=figures,
        reasons={},
        driver_time=max(times, key=lambda time: time.seconds) if len(times) == len(found) else None,
        smallest_card_bytes=max(filter(None, cards)) if all(cards) else None,
        no_retry_card_bytes=max(filter(None, retried)) if all(retried) else None,
        settled=all(one.settled for one in found),
        reason=next((one.reason for one in found if one.reason), ""),
        margin=first.margin,
        pools_joined=any(one.pools_joined for one in found),
    )


def summary(job: JobAnswer) -> str:
    """Say what lets every rank live, which rank decides, and how far apart the ranks are."""
    best = job.settings[0] if job.settings else None
    if best is None or best.smallest_card_bytes is None:
        return "no setting could be replayed to its end for every rank: see the reasons"
    decides = job.deciding(best)
    which = f"; {decides.of.name} decides" if decides and len(job.ranks) > 1 else ""
    needs = f"a card with {format_need(best.smallest_card_bytes)} usable"
    if best.completes is False:
        text = f"no setting lets every rank live on its card: the job needs {needs} under "
        text += best.setting.line
    elif best is job.recorded:
        fits = "fits every rank's card, and" if best.completes else "is as good as any: it"
        fits += " needs"
        text = f"the recorded {best.name} {fits} {needs}"
    else:
        fits = "fits every rank's card, and needs" if best.completes else "needs"
        text = f"{best.setting.line} {fits} {needs} for every rank"
        own = job.recorded
        if own is not None and own.smallest_card_bytes is not None:
            same = alike(own.smallest_card_bytes, best.smallest_card_bytes)
            than = "about as" if same else format_need(own.smallest_card_bytes) + " under"
            text += f", {than} the recorded {own.name}"
    return text + which + _spread(job, best) + _left_out(job)


def recommended(job: JobAnswer) -> str | None:
    """Return the line that changes the setting, None where none is better than the recorded one.

    Nothing rests on a replay that contradicts the recording of a rank.
    """
    best = job.settings[0] if job.settings else None
    if best is None or best.smallest_card_bytes is None or best is job.recorded:
        return None
    if any(rank.answer.agreement.contradiction for rank in job.ranks):
        return None
    return best.setting.line


def stands_for(rank: RankAnswer) -> str:
    """Say which ranks a recording stands for."""
    return listed(rank.of.ranks) if len(rank.of.ranks) > 1 else rank.of.name.removeprefix("rank ")


def _spread(job: JobAnswer, best: SettingAnswer) -> str:
    peaks = [
        int(one.figures["peak_reserved_bytes"])
        for rank in job.ranks
        if (one := rank.setting(best.name)) and "peak_reserved_bytes" in one.figures
    ]
    if len(peaks) < 2 or min(peaks) == max(peaks):  # noqa: PLR2004 - nothing to tell apart
        return ""
    least, most = format_bytes(min(peaks)), format_bytes(max(peaks))
    return f"; peaks of reserved memory from {least} to {most}"


def _left_out(job: JobAnswer) -> str:
    size = job.world_size
    if size is None or job.count >= size:
        return ""
    return f". Answered for {job.count} of {size} ranks"


def _rank_json(rank: RankAnswer) -> dict[str, Any]:
    explained = explain(rank.answer)
    return {
        "rank": rank.of.rank,
        "ranks": list(rank.of.ranks),
        "file": rank.of.file.name,
        **rank.answer.to_json(),
        "explanation": explained.to_json() if explained else None,
    }
