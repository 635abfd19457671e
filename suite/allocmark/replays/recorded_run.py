"""How the recorded run ended, and in how much memory: what a replay of it is held against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from allocmark.recording.importers.recording import FailedRequest, Recording
from allocmark.replays import process_limit


class Outcome(StrEnum):
    """How a run ended; its value is what it says in an answer."""

    FAILED = "failed"
    RETRIED = "retried"
    FINE = "had all it asked for"
    NO_HISTORY = "is not known"


@dataclass(frozen=True, slots=True)
class Room:
    """What an allocator could reserve: so much of the GPU, and less where the process limits it."""

    capacity_bytes: int
    allowed_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """`failed` is the first request that was refused, `room` None where it is not known.

    `outside`: memory ran out in another call of CUDA than the allocator's.
    """

    outcome: Outcome
    room: Room | None = None
    failed: FailedRequest | None = None
    outside: bool = False

    @property
    def was_short(self) -> bool:
        """Whether it came to the end of its memory: only a replay in as much is its like."""
        return self.outcome in (Outcome.FAILED, Outcome.RETRIED)


def of(recording: Recording) -> RecordedRun:
    """Return how a recorded run ended."""
    if not recording.has_history:
        return RecordedRun(Outcome.NO_HISTORY)
    capacity = room_bytes(recording)
    limit = process_limit.of(recording, None)
    room = None if capacity is None else Room(capacity, limit.allowed_bytes if limit else None)
    if recording.failed:
        return RecordedRun(Outcome.FAILED, room, recording.failed[0])
    counted = recording.counted
    if counted.get("ooms") and not recording.begins_late:
        return RecordedRun(Outcome.FAILED, room)  # A trace of the suite does not tell which.
    if recording.environment.get("why") == "oom":
        return RecordedRun(Outcome.FAILED, room, outside=True)
    retried = counted.get("retries", counted.get("given_back", 0)) > 0
    return RecordedRun(Outcome.RETRIED if retried else Outcome.FINE, room)


def room_bytes(recording: Recording) -> int | None:
    """Return what the allocator held and the driver had free beside, None where not known.

    At the first request that failed, else as the recording was written.
    """
    if recording.failed and recording.failed[0].room_bytes is not None:
        return recording.failed[0].room_bytes
    facts = recording.environment
    held, free = facts.get("reserved_bytes"), facts.get("free_bytes")
    return held + free if isinstance(held, int) and isinstance(free, int) else None
