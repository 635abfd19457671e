"""Which moment of which setting to explain, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from allocmark.recording.importers.recording import BlockMap
from allocmark.replays import breakdown_words
from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.memory_breakdown import Moment, take_apart


@dataclass(frozen=True, slots=True)
class Explained:
    """One moment: its map, its parts, under which setting, and whether a request failed there."""

    under: str
    failing: bool
    map: BlockMap
    moment: Moment
    sentences: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the map left out."""
        plain = asdict(self.moment)
        return {"under": self.under, "failing": self.failing, **plain}


def explain(answer: ReplayAnswer) -> Explained | None:
    """Return the moment of the recorded setting, or of the first that has one; None without any.

    A snapshot that was made as memory ran out is the moment itself, and so is one without history.
    """
    recording = answer.recording
    at_oom = recording.environment.get("why") == "oom"
    if recording.end_map is not None and (at_oom or not recording.has_history):
        return _explained(answer, "the recorded run", at_oom, recording.end_map)
    own = answer.recorded
    for one in ([own] if own else []) + list(answer.settings):
        for moment in ("failure", "peak"):
            if moment in one.maps:
                return _explained(answer, one.name, moment == "failure", one.maps[moment])
    return None


def _explained(answer: ReplayAnswer, under: str, failing: bool, found: BlockMap) -> Explained:
    moment = take_apart(found, answer.recording)
    told = breakdown_words.sentences(moment, under, failing, answer.recording)
    return Explained(under, failing, found, moment, told)
