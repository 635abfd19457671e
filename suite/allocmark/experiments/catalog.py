"""The experiments by name."""

from __future__ import annotations

import importlib

from allocmark.allocators import registry
from allocmark.experiments.core.experiment import PROFILES, Experiment
from allocmark.system.errors import UnknownNameError

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
_FOLDERS = {"several_gpus": "multi_gpu", "replay_recording": "recording"}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name. Raises `UnknownNameError`."""
    if name not in (*NAMES, *ON_DEMAND):
        raise UnknownNameError("experiment", name, list(NAMES))
    folder = _FOLDERS.get(name, name)
    module = importlib.import_module(f"allocmark.experiments.{folder}.experiment")
    chosen: Experiment = module.EXPERIMENT
    return chosen


def profiles_of(name: str) -> list[str]:
    """Return the names of the profiles that measure anything of an experiment."""
    chosen, allocators = experiment(name), list(registry().values())
    return [p.name for p in PROFILES.values() if chosen.subjects(allocators, p)]
