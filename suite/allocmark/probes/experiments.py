"""The experiments by name."""

from __future__ import annotations

import importlib

from allocmark.allocators import registry
from allocmark.errors import UnknownNameError
from allocmark.probes.experiment import PROFILES, Experiment

NAMES = (
    "context",
    "latency",
    "fragmentation",
    "capacity",
    "streams",
    "pressure",
    "placement",
    "tensorflow_policy",
    "several_gpus",
)
ON_DEMAND = ("replay_recording",)
"""Those that no run of the suite contains: others start them."""


def experiment(name: str) -> Experiment:
    """Return the experiment ``allocmark.probes.<name>``. Raises `UnknownNameError`."""
    if name not in (*NAMES, *ON_DEMAND):
        raise UnknownNameError("experiment", name, list(NAMES))
    chosen: Experiment = importlib.import_module(f"allocmark.probes.{name}").EXPERIMENT
    return chosen


def profiles_of(name: str) -> list[str]:
    """Return the names of the profiles that measure anything of an experiment."""
    chosen, allocators = experiment(name), list(registry().values())
    return [p.name for p in PROFILES.values() if chosen.subjects(allocators, p)]
