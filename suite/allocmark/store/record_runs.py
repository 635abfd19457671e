"""What was run, when, and on which host: a stack's figures may come from several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from allocmark.store.frame import Source
from allocmark.store.panel import Panel
from allocmark.system.message import Message, Text


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Experiments of one stack, profile, day (ISO 8601) and host.

    `gpus` and `cpus` are how many the host has, 0 where that was not noted.
    """

    stack: str
    profile: str
    day: str
    gpus: int
    cpus: int
    experiments: tuple[str, ...]

    @property
    def host(self) -> tuple[Text, ...]:
        """What is known of the host, in words."""
        known = (
            (self.gpus, Message("1 GPU"), Message("{count} GPUs", count=f"{self.gpus}")),
            (self.cpus, Message("1 CPU"), Message("{count} CPUs", count=f"{self.cpus}")),
        )
        return tuple(one if count == 1 else several for count, one, several in known if count)


def runs(panel: Panel) -> tuple[Run, ...]:
    """Return the runs that a panel shows figures of, sorted."""
    found: dict[tuple[str, str, str, int, int], set[str]] = {}
    for index in panel.shown:
        source = panel.store.sources[index]
        document = source.document
        held = _conditions(source)
        gpus = int(held.get("gpu_count") or 0) or _named_gpus(panel, index)
        run = source.stack_name, document.profile, document.started[:10]
        key = (*run, gpus, int(held.get("cpu_count") or 0))
        found.setdefault(key, set()).add(document.probe)
    return tuple(sorted(Run(*key, tuple(sorted(probes))) for key, probes in found.items()))


def _conditions(source: Source) -> Mapping[str, Any]:
    held = source.document.conditions
    before = held.get("before")
    return before if isinstance(before, Mapping) else held


def _named_gpus(panel: Panel, index: int) -> int:
    """Return how many GPUs a document's figures name, 0 where that is not more than one."""
    rows = panel.rows
    if "gpu" not in rows:
        return 0
    named = int(rows.loc[rows["document"] == index, "gpu"].nunique())
    return named if named > 1 else 0
