"""The answer: what each setting needs and costs, ranked, with everything it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from allocmark.recording.importers.recording import BlockMap, Recording
from allocmark.replays.agreement import Agreement, compare
from allocmark.replays.driver_pool import Margin
from allocmark.replays.driver_time import DriverTime
from allocmark.replays.non_allocator_memory import Term
from allocmark.replays.process_limit import ProcessLimit
from allocmark.replays.recorded_run import RecordedRun
from allocmark.replays.settings import Setting

SCHEMA = 1
FORMAT = "allocmark-replay"
FIGURES = (
    *("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "waste_ratio"),
    *("peak_segments", "driver_allocs", "driver_frees", "retries"),
    *("smallest_capacity_bytes", "resolution_bytes", "completes", "capacity_bytes"),
    *("capacity_peak_reserved_bytes", "capacity_peak_segments", "capacity_retries"),
    *("capacity_driver_allocs", "capacity_driver_frees", "failed_event", "replay_seconds"),
)
"""What is kept of a child's figures; missing ones are None, with a reason where one is known."""


@dataclass(frozen=True, slots=True)
class SettingAnswer:
    """One setting. `reason` says why there are no figures.

    `smallest_card_bytes` is the smallest capacity in which it completes (giving its cache back and
    asking again, if it must) plus what lies outside the allocator; `no_retry_card_bytes` the same
    with its peak of reserved memory, so that it never has to. `driver_time` is of the run on the
    card where one is known, else of the run without a limit.
    """

    setting: Setting
    figures: Mapping[str, float]
    reasons: Mapping[str, str]
    driver_time: DriverTime | None
    smallest_card_bytes: int | None
    no_retry_card_bytes: int | None
    settled: bool = True
    """Whether the search for the smallest capacity came to its end; else it may be smaller."""
    reason: str = ""
    error: str = ""
    in_force: str = ""
    seconds: float = 0.0
    curve: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Event, requested and reserved bytes: on the card where one is known."""
    maps: Mapping[str, BlockMap] = field(default_factory=dict)
    """At ``peak`` and at ``failure``."""
    over_time: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Event, live, cached, inactive split and pending free bytes, of the setting that is drawn."""
    tracks: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Event, stream, pool and the bytes that these hold, of a setting that is drawn."""
    cells: Sequence[float] = ()
    """What each of them holds by address, `CELLS` of the address map a point."""
    in_recorded_room: Mapping[str, float] = field(default_factory=dict)
    """Of the recorded setting: figures of a run in as much memory as the recorded one had."""
    margin: Margin | None = None
    """By how much its bytes may be off where a model stands for the driver's pool."""
    pools_joined: bool = False
    """Whether the recording has private pools and the allocator has none: they were one."""

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.setting.name

    def figure(self, name: str) -> int | None:
        """Return a whole number, None where it has none."""
        value = self.figures.get(name)
        return None if value is None else int(value)

    @property
    def reserved_need_bytes(self) -> int | None:
        """The least that it must be able to reserve, None where not known."""
        least = self.figure("smallest_capacity_bytes")
        if least is None or self.smallest_card_bytes is None:
            return self.figure("peak_reserved_bytes")
        share = self.setting.fraction
        return least if share is None else min(least, int(share * self.smallest_card_bytes))

    @property
    def completes(self) -> bool | None:
        """Whether it completes on the card that was asked for, None where none was or undecided."""
        value = self.figures.get("completes")
        return None if value is None or self.undecided else bool(value)

    @property
    def undecided(self) -> bool:
        """Whether the card lies within what its need may be off, or pools were replayed as one."""
        if self.pools_joined:
            return True
        card = self.figure("capacity_bytes")
        need = self.figure("smallest_capacity_bytes") or self.figure("peak_reserved_bytes")
        if self.margin is None or card is None or need is None:
            return False
        low, high = self.interval(need)
        return low <= card < high

    def interval(self, value_bytes: int, outside_bytes: int = 0) -> tuple[int, int]:
        """Return the least and the most that a figure stands for; what lies outside is exact."""
        if self.margin is None:
            return value_bytes, value_bytes
        low, high = self.margin.interval(value_bytes - outside_bytes)
        return low + outside_bytes, high + outside_bytes


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """A recording replayed. `settings` are in the order of `allocmark.replays.ranking`."""

    recording: Recording
    settings: Sequence[SettingAnswer]
    outside: Term
    card: Term | None
    run: RecordedRun
    limit: ProcessLimit | None
    """What the recorded process allowed itself, on the card that is answered for."""
    where: str
    emulated: bool
    doubts: Sequence[str]
    seconds: float

    @property
    def recorded(self) -> SettingAnswer | None:
        """The answer for the setting that the run was recorded under, None where not known."""
        return next((s for s in self.settings if s.setting.recorded), None)

    @property
    def limited(self) -> bool:
        """Whether the process's own limit, and not the card, says how much it may reserve."""
        if self.limit is None or self.card is None:
            return False
        return self.limit.allowed_bytes < self.card.value_bytes - self.outside.value_bytes

    @property
    def source_of_times(self) -> str:
        """Where the estimates of time in the driver come from, nothing without any."""
        return next((s.driver_time.source for s in self.settings if s.driver_time), "")

    @property
    def agreement(self) -> Agreement:
        """How the replay under the recorded setting agrees with what was recorded."""
        own = self.recorded
        return compare(
            self.recording,
            self.run,
            own.name if own else None,
            own.in_recorded_room if own else {},
            (own.reasons.get("in_recorded_room") or own.reason) if own else "",
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the maps left out."""
        recording = self.recording
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "source": recording.source,
            "device": recording.device,
            "events": len(recording.trace),
            "where": self.where,
            "emulated": self.emulated,
            "recorded": dict(recording.counted),
            "agreement": self.agreement.text,
            "contradiction": self.agreement.to_json(),
            "limit": asdict(self.limit) if self.limit else None,
            "outside": asdict(self.outside),
            "card": asdict(self.card) if self.card else None,
            "doubts": list(self.doubts),
            "seconds": self.seconds,
            "settings": [_setting_json(s, self.outside.value_bytes) for s in self.settings],
        }


def _setting_json(answer: SettingAnswer, outside: int) -> dict[str, Any]:
    time = answer.driver_time
    peak, card = answer.figure("peak_reserved_bytes"), answer.smallest_card_bytes
    return {
        "setting": answer.name,
        "line": answer.setting.line,
        "recorded": answer.setting.recorded,
        "in_force": answer.in_force,
        "reason": answer.reason or None,
        "smallest_card_bytes": answer.smallest_card_bytes,
        "settled": answer.settled,
        "no_retry_card_bytes": answer.no_retry_card_bytes,
        "fits": answer.completes,
        "margin": answer.margin._asdict() if answer.margin else None,
        "peak_reserved_interval_bytes": None if peak is None else answer.interval(peak),
        "smallest_card_interval_bytes": None if card is None else answer.interval(card, outside),
        "error": answer.error or None,
        "driver_seconds": time.seconds if time else None,
        "driver_calls": time.calls if time else None,
        "driver_seconds_source": time.source if time else None,
        **{name: answer.figures.get(name) for name in FIGURES},
        "reasons": dict(answer.reasons),
        "seconds": answer.seconds,
    }
