"""The answer: what each setting needs and costs, ranked, with everything it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from allocmark.recording.importers.recording import BlockMap, Recording
from allocmark.replays.driver_time import DriverTime
from allocmark.replays.non_allocator_memory import Term
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
    cells: Sequence[float] = ()
    """What each of them holds by address, `CELLS` of the address map a point."""

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.setting.name

    def figure(self, name: str) -> int | None:
        """Return a whole number, None where it has none."""
        value = self.figures.get(name)
        return None if value is None else int(value)

    @property
    def completes(self) -> bool | None:
        """Whether it completes on the card that was asked for, None where none was."""
        value = self.figures.get("completes")
        return None if value is None else bool(value)


@dataclass(frozen=True, slots=True)
class ReplayAnswer:
    """A recording replayed. `settings` are in the order of `allocmark.replays.ranking`."""

    recording: Recording
    settings: Sequence[SettingAnswer]
    outside: Term
    card: Term | None
    card_is_recorded: bool
    """Whether the card is the one of the recorded run, which had it for itself."""
    where: str
    emulated: bool
    doubts: Sequence[str]
    seconds: float

    @property
    def recorded(self) -> SettingAnswer | None:
        """The answer for the setting that the run was recorded under, None where not known."""
        return next((s for s in self.settings if s.setting.recorded), None)

    @property
    def source_of_times(self) -> str:
        """Where the estimates of time in the driver come from, nothing without any."""
        return next((s.driver_time.source for s in self.settings if s.driver_time), "")

    @property
    def agreement(self) -> str:
        """Say how the replay under the recorded setting agrees with what was recorded.

        A run that ran short of its card is held against the replay in as much memory.
        """
        own = self.recorded
        if own is None:
            known = "the setting of the recorded run is not known"
            return f"{known}: nothing to hold the replay against"
        on_card = self.card_is_recorded and own.figure("capacity_bytes") is not None
        if self.recording.counted.get("retries") and not on_card:
            return (
                "the recorded run was short of memory and gave its cache back: only a replay in "
                "the same memory (its card, alone, without --capacity) can be held against it"
            )
        if own.reason and not on_card:
            return "the recorded setting could not be replayed: nothing to hold against"
        words = []
        for name, what in _COMPARED.items():
            was, now = self.recording.counted.get(name), own.figure("capacity_" * on_card + name)
            if was is not None and now is not None:
                same = f"{what} equal ({was})"
                off = f"{what} {now}, recorded {was} ({(now - was) / max(1, was):+.2%})"
                words.append(same if was == now else off)
        if self.recording.failed and on_card:
            was, now = self.recording.failed[-1].event, own.figure("failed_event")
            off = f"recorded failure at event {was}, replayed: {'none' if now is None else now}"
            words.append("it fails at the recorded event" if was == now else off)
        compared = "; ".join(words) or "nothing was recorded to compare"
        return f"replay under {own.name}: {compared}"

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
            "agreement": self.agreement,
            "outside": asdict(self.outside),
            "card": asdict(self.card) if self.card else None,
            "doubts": list(self.doubts),
            "seconds": self.seconds,
            "settings": [_setting_json(s) for s in self.settings],
        }


_COMPARED = {"peak_reserved_bytes": "peak reserved", "peak_segments": "segments",
             "driver_allocs": "driver allocations", "retries": "retries"}  # fmt: skip


def _setting_json(answer: SettingAnswer) -> dict[str, Any]:
    time = answer.driver_time
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
        "error": answer.error or None,
        "driver_seconds": time.seconds if time else None,
        "driver_calls": time.calls if time else None,
        "driver_seconds_source": time.source if time else None,
        **{name: answer.figures.get(name) for name in FIGURES},
        "reasons": dict(answer.reasons),
        "seconds": answer.seconds,
    }
