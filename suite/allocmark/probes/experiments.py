"""The experiments by name."""

from __future__ import annotations

import importlib

from allocmark.errors import UnknownNameError
from allocmark.probes.experiment import Experiment

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
