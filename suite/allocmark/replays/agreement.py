"""The replay under the recorded setting held against the recorded run, in as much memory.

Where the run failed or retried and its replay did not (or the other way round), the replay is not
that run, and nothing that rests on it is recommended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from allocmark.recording.importers.recording import Recording
from allocmark.replays.process_limit import refused_with_room
from allocmark.replays.recorded_run import Outcome, RecordedRun
from allocmark.system.units import format_bytes, format_count
from allocmark.workloads.event_trace import Op

_COMPARED = {
    "capacity_peak_reserved_bytes": ("peak reserved", "peak_reserved_bytes"),
    "capacity_peak_segments": ("segments", "peak_segments"),
    "capacity_driver_allocs": ("driver allocations", "driver_allocs"),
    "capacity_retries": ("retries", "retries"),
}
"""What is compared: figures of the replay, in words, and as the recording counts them."""
NO_CAUSE = "the recording does not tell why"


@dataclass(frozen=True, slots=True)
class Agreement:
    """`text` compares figures. `contradiction` says how outcomes differ, empty where they agree;
    `cause` is what the recording tells of it.
    """

    text: str
    contradiction: str = ""
    cause: str = ""

    def to_json(self) -> dict[str, str] | None:
        """Return the contradiction as plain data, None without one."""
        if not self.contradiction:
            return None
        return {"what": self.contradiction, "cause": self.cause}


def compare(
    recording: Recording,
    run: RecordedRun,
    setting: str | None,
    replayed: Mapping[str, float],
    reason: str = "",
) -> Agreement:
    """Return how they agree.

    `setting` names the recorded setting, None where it is not known. `replayed` are the figures of
    its replay in the memory of the recorded run, empty where there is none, for the `reason`.
    """
    if run.outcome is Outcome.NO_HISTORY:
        return Agreement("the recording has no history: nothing to hold a replay against")
    if setting is None:
        known = "the setting of the recorded run is not known"
        return Agreement(f"{known}: nothing to hold the replay against")
    if run.was_short and run.room is None:
        return Agreement(
            f"the recorded run {_ended(run, recording)}, and the recording does not tell in how "
            "much memory: nothing to hold a replay against"
        )
    if not replayed:
        why = f" ({reason})" if reason else ""
        return Agreement(f"the recorded setting could not be replayed{why}: nothing to compare")
    contradiction = _contradiction(recording, run, replayed)
    cause = _cause(recording, run) if contradiction else ""
    memory = ""
    if run.was_short and run.room is not None:
        room = min(run.room.capacity_bytes, run.room.allowed_bytes or run.room.capacity_bytes)
        memory = f" in the {format_bytes(room)} that the recorded run had"
    words = "; ".join(_compared(recording, run, replayed)) or "nothing was recorded to compare"
    return Agreement(f"replay under {setting}{memory}: {words}", contradiction, cause)


def _contradiction(recording: Recording, run: RecordedRun, replayed: Mapping[str, float]) -> str:
    fails = replayed.get("completes") == 0
    event, retries = replayed.get("failed_event"), int(replayed.get("capacity_retries", 0))
    counted = format_count(retries, "retry", "retries")
    ended = f"completes{f' with {counted}' if retries else ' without a retry'}"
    at = "fails" if event is None else f"fails at event {event:.0f}"
    was = f"the recorded run {_ended(run, recording)}"
    match run.outcome:
        case Outcome.FAILED if not fails:
            return f"{was}, and its replay in the same memory {ended}"
        case Outcome.FAILED if run.failed and event is not None and event > run.failed.event:
            return f"{was}, and its replay in the same memory serves that request and {at}"
        case Outcome.FAILED if run.failed and event is not None and event < run.failed.event:
            return f"{was}, and its replay in the same memory {at}, which the run was served"
        case Outcome.RETRIED | Outcome.FINE if fails:
            return f"{was}, and its replay in the same memory {at}"
        case Outcome.RETRIED if not retries:
            return f"{was}, and its replay in the same memory {ended}"
        case Outcome.FINE if retries:
            return f"{was}, and its replay in the same memory {ended}"
    return ""


def _ended(run: RecordedRun, recording: Recording) -> str:
    if run.outcome is Outcome.FAILED and run.failed is None:
        return "failed outside torch's allocator" if run.outside else "failed"
    if run.failed is not None:
        return f"failed at event {run.failed.event} ({format_bytes(run.failed.size_bytes)})"
    if run.outcome is Outcome.RETRIED:
        count = recording.counted.get("retries")
        times = f" with {format_count(count, 'retry', 'retries')}" if count else ""
        return f"ended{times}, its cache released for lack of memory"
    return "had all it asked for without a retry"


def _cause(recording: Recording, run: RecordedRun) -> str:
    """Return why they differ, as far as the recording tells."""
    causes = list(recording.causes)
    if run.outside:
        causes.insert(0, "memory ran out in another call of CUDA, and a replay makes none of these")
    if run.failed is not None and refused_with_room(run.failed):
        free = format_bytes(run.failed.device_free_bytes)
        causes.insert(
            0, f"a limit of the process refused it ({free} were free), and was changed later"
        )
    if run.failed is not None and run.failed.returned_bytes:
        causes.insert(0, in_failing_call(run.failed.returned_bytes))
    return "; ".join(causes) or NO_CAUSE


def in_failing_call(returned_bytes: int) -> str:
    """Say that memory came back too late for the call that needed it."""
    return (
        f"{format_bytes(returned_bytes)} that were freed and waited for another stream came back "
        "inside the failing call, too late to serve it: the same request made once more is served"
    )


def _compared(recording: Recording, run: RecordedRun, replayed: Mapping[str, float]) -> list[str]:
    words = []
    if recording.begins_late:
        words.append("what was cached before its history is not known, so no figures are compared")
    # A replay ends at its first failure: what the program did after its own is in its counters.
    if not recording.begins_late and _ended_with_it(recording, run):
        for name, (what, counter) in _COMPARED.items():
            was, now = recording.counted.get(counter), replayed.get(name)
            if was is not None and now is not None:
                same = f"{what} equal ({was})"
                off = f"{what} {now:.0f}, recorded {was} ({(now - was) / max(1, was):+.2%})"
                words.append(same if was == now else off)
    if run.failed is not None:
        now = replayed.get("failed_event")
        found = "none" if now is None else f"{now:.0f}"
        off = f"recorded failure at event {run.failed.event}, replayed: {found}"
        words.append("it fails at the recorded event" if now == run.failed.event else off)
    return words


def _ended_with_it(recording: Recording, run: RecordedRun) -> bool:
    """Say whether the program allocated nothing after its first request that failed, if any."""
    if run.failed is None:
        return run.outcome is not Outcome.FAILED
    return not bool((recording.trace.op[run.failed.event + 1 :] == Op.ALLOC).any())
