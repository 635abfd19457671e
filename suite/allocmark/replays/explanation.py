"""Which event of which setting to explain: the memory breakdown there, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from allocmark.recording.importers.recording import BlockMap, Recording
from allocmark.replays import breakdown_words
from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.memory_breakdown import PENDING_FREE, MemoryBreakdown, break_down
from allocmark.schema.metrics.recording import FAILURE, PEAK

_STATE, _BLOCK = 3, 4
"""Columns of a map's blocks."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One event: its map, its parts, under which setting, and whether a request failed there."""

    under: str
    failing: bool
    map: BlockMap
    breakdown: MemoryBreakdown
    sentences: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the map left out."""
        plain = asdict(self.breakdown)
        return {"under": self.under, "failing": self.failing, **plain}


def explain(answer: ReplayAnswer) -> Explanation | None:
    """Explain the recorded setting, or the first that has a map; None without any.

    A snapshot that was made as memory ran out is what is explained, and so is one without history.
    """
    recording = answer.recording
    at_oom = recording.environment.get("why") == "oom"
    if recording.end_map is not None and (at_oom or not recording.has_history):
        return _explanation(answer, "the recorded run", at_oom, recording.end_map)
    own = answer.recorded
    for tried in ([own] if own else []) + list(answer.settings):
        for at in (FAILURE, PEAK):
            if at in tried.maps:
                found = tried.maps[at]
                if at == FAILURE:
                    found = _still_pending(found, recording)
                return _explanation(answer, tried.name, at == FAILURE, found)
    return None


def _still_pending(found: BlockMap, recording: Recording) -> BlockMap:
    """Return the map with the block that came back inside the failing call as freed before it.

    A replay frees it where it came back: behind the request.
    """
    failed = next((one for one in recording.failed if one.event == found.event), None)
    behind = found.event + 2  # The request itself is freed first.
    if failed is None or not failed.returned_bytes or behind >= len(recording.trace):
        return found
    blocks = found.blocks.copy()
    blocks[blocks[:, _BLOCK] == recording.trace.block[behind], _STATE] = PENDING_FREE
    return replace(found, blocks=blocks)


def _explanation(answer: ReplayAnswer, under: str, failing: bool, found: BlockMap) -> Explanation:
    breakdown = break_down(found, answer.recording)
    lines = breakdown_words.sentences(breakdown, under, failing, answer.recording)
    return Explanation(under, failing, found, breakdown, lines)
