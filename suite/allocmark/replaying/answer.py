"""The answer: what each setting needs and costs, ranked, with everything it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from allocmark.importers.recording import BlockMap, Recording
from allocmark.replaying.driver_time import DriverTime
from allocmark.replaying.outside import Term
from allocmark.replaying.settings import Setting

SCHEMA = 1
FORMAT = "allocmark-replay"
FIGURES = (
    *("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "waste_ratio"),
    *("segments", "driver_allocs", "driver_frees", "retries"),
    *("smallest_capacity_bytes", "resolution_bytes"),
    *("completes", "capacity_retries", "capacity_driver_allocs", "capacity_driver_frees"),
    *("failed_event", "replay_seconds"),
)
"""What is kept of a child's figures; missing ones are None, with a reason where one is known."""


@dataclass(frozen=True, slots=True)
class SettingAnswer:
    """One setting. `smallest_card_bytes` is peak reserved plus what lies outside the allocator;
    `tight_card_bytes` the same with the smallest capacity in which it still completes, giving its
    cache back and asking again. `reason` says why there are no figures.
    """

    setting: Setting
    figures: Mapping[str, float]
    reasons: Mapping[str, str]
    driver_time: DriverTime | None
    smallest_card_bytes: int | None
    tight_card_bytes: int | None
    reason: str = ""
    error: str = ""
    in_force: str = ""
    seconds: float = 0.0
    curve: Mapping[str, Sequence[float]] = field(default_factory=dict)
    maps: Mapping[str, BlockMap] = field(default_factory=dict)
    """By the moment: ``peak`` and ``failure``."""

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
class Answer:
    """A recording replayed. `settings` are ranked: the first is the one to choose."""

    recording: Recording
    settings: Sequence[SettingAnswer]
    outside: Term
    card: Term | None
    where: str
    emulated: bool
    doubts: Sequence[str]
    seconds: float

    @property
    def recorded(self) -> SettingAnswer | None:
        """The answer for the setting that the run was recorded under, None where not known."""
        return next((s for s in self.settings if s.setting.recorded), None)

    @property
    def agreement(self) -> str:
        """Say how the replay under the recorded setting agrees with what was recorded."""
        own = self.recorded
        if own is None or own.reason:
            return "the recorded setting is not known or could not run: nothing to hold against"
        words = []
        for name, what in _COMPARED.items():
            was, now = self.recording.counted.get(name), own.figure(_REPLAYED.get(name, name))
            if was is None or now is None:
                continue
            if was == now:
                words.append(f"{what} equal ({was})")
            else:
                words.append(f"{what} {now}, recorded {was} ({(now - was) / max(1, was):+.2%})")
        return f"replay under {own.name}: " + (
            "; ".join(words) or "nothing was recorded to compare"
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
            "agreement": self.agreement,
            "outside": asdict(self.outside),
            "card": asdict(self.card) if self.card else None,
            "doubts": list(self.doubts),
            "seconds": self.seconds,
            "settings": [_setting_json(s) for s in self.settings],
        }


_COMPARED = {
    "peak_reserved_bytes": "peak reserved",
    "peak_segments": "segments",
    "driver_allocs": "driver allocations",
    "retries": "retries",
}
_REPLAYED = {"peak_segments": "segments"}


def _setting_json(answer: SettingAnswer) -> dict[str, Any]:
    time = answer.driver_time
    return {
        "setting": answer.name,
        "line": answer.setting.line,
        "recorded": answer.setting.recorded,
        "in_force": answer.in_force,
        "reason": answer.reason or None,
        "smallest_card_bytes": answer.smallest_card_bytes,
        "tight_card_bytes": answer.tight_card_bytes,
        "fits": answer.completes,
        "error": answer.error or None,
        "driver_seconds": time.seconds if time else None,
        "driver_calls": time.calls if time else None,
        "driver_seconds_source": time.source if time else None,
        **{name: answer.figures.get(name) for name in FIGURES},
        "reasons": dict(answer.reasons),
        "seconds": answer.seconds,
    }
