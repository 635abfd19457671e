"""The experiments: each folder beside this module whose ``experiment.py`` has an ``EXPERIMENT``."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator

from allocmark import experiments
from allocmark.allocators import registry
from allocmark.experiments.core.experiment import PROFILES, Experiment
from allocmark.system.errors import UnknownNameError


def in_suite() -> list[Experiment]:
    """Return the experiments that a run of the suite consists of, in order."""
    every = sorted(_found(), key=lambda each: (each.order, each.name))
    return [each for each in every if not each.on_demand]


def experiment(name: str) -> Experiment:
    """Return the experiment of that name. Raises `UnknownNameError`."""
    # Most folders are named like it: a child then imports no experiment but its own.
    for each in _found(first=name):
        if each.name == name:
            return each
    raise UnknownNameError("experiment", name, [each.name for each in in_suite()])


def profiles_of(chosen: Experiment) -> list[str]:
    """Return the names of the profiles that measure anything of an experiment."""
    allocators = list(registry().values())
    return [p.name for p in PROFILES.values() if chosen.subjects(allocators, p)]


def _found(first: str = "") -> Iterator[Experiment]:
    """Import the folders as they are needed, one of that name before the others."""
    every = pkgutil.iter_modules(experiments.__path__)
    folders = [info.name for info in every if info.ispkg and info.name != "core"]
    for folder in sorted(folders, key=lambda folder: folder != first):
        name = f"{experiments.__name__}.{folder}.experiment"
        if importlib.util.find_spec(name):
            chosen: Experiment = importlib.import_module(name).EXPERIMENT
            yield chosen
