"""The committed documents as they lie on disk: nothing of the suite reads them here."""

from __future__ import annotations

import gzip
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[3] / "results" / "nvidia-h200"
_METERS = ("nvml_process", "nvml_device", "mem_get_info")


@dataclass(frozen=True)
class Reading:
    """One figure of a document."""

    subject: str
    axes: dict[str, Any]
    value: float
    low: float
    high: float


class Record:
    """Figures by experiment and metric; a full run's document goes before a quick one's."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], list[Reading]] = {}
        self._notes: dict[tuple[str, str], dict[str, Any]] = {}
        documents: dict[tuple[str, str], dict[str, Any]] = {}
        for profile in ("quick", "full"):
            for path in sorted(RESULTS.glob(f"*/{profile}/*.json.gz")):
                with gzip.open(path) as stream:
                    document = json.load(stream)
                documents[document["probe"], document["subject"]] = document
        for (probe, subject), document in documents.items():
            self._notes[probe, subject] = document["conditions"].get("notes", {})
            for each in document["figures"]:
                if each.get("value") is not None:
                    plain = "counts" not in each and each.get("samples")
                    value = float(statistics.median(plain or [each["value"]]))
                    low, high = each.get("interval") or (value, value)
                    reading = Reading(subject, each["axes"], value, low, high)
                    self._found.setdefault((probe, each["metric"]), []).append(reading)

    def all(self, probe: str, metric: str, subject: str = "", **axes: Any) -> list[Reading]:
        """Return the readings there; of several meters the first that has any."""
        found = list(self._at(probe, metric, subject, axes))
        for meter in _METERS:
            own = [one for one in found if one.axes.get("meter") == meter]
            if own:
                return own
        return found

    def one(self, probe: str, metric: str, subject: str = "", **axes: Any) -> float:
        """Return the value of the only reading there."""
        found = self.all(probe, metric, subject, **axes)
        assert len(found) == 1, (probe, metric, subject, axes, len(found))
        return found[0].value

    def notes(self, probe: str, subject: str) -> dict[str, Any]:
        """Return what the experiment noted beside the figures."""
        return self._notes[probe, subject]

    def by(self, axis: str, probe: str, metric: str, subject: str = "") -> dict[Any, float]:
        """Return values by an axis."""
        return {one.axes[axis]: one.value for one in self.all(probe, metric, subject)}

    def _at(self, probe: str, metric: str, subject: str, axes: dict[str, Any]) -> Iterator[Reading]:
        for one in self._found.get((probe, metric), []):
            named = not subject or one.subject == subject
            if named and all(one.axes.get(axis) == value for axis, value in axes.items()):
                yield one
