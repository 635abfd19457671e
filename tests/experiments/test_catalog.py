from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from allocmark import experiments
from allocmark.experiments import catalog
from allocmark.system.errors import UnknownNameError

OUTSIDE = """
from allocmark.experiments.core.experiment import Experiment

class Outside(Experiment):
    name = {name!r}
    order = 15
    on_demand = {on_demand}

    def subjects(self, allocators, profile):
        return ["it"]

    def requests(self, subject, profile, allocators):
        return []

    def prepare(self, request):
        pass

EXPERIMENT = Outside()
"""


def add(folder: Path, name: str, on_demand: bool = False) -> None:
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "experiment.py").write_text(OUTSIDE.format(name=name, on_demand=on_demand))


def test_an_experiment_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [each.name for each in catalog.in_suite()]
    add(tmp_path / "outside_folder", "outside")
    add(tmp_path / "outside_other", "outside-on-demand", on_demand=True)
    (tmp_path / "no_experiment").mkdir()
    (tmp_path / "no_experiment" / "__init__.py").touch()
    monkeypatch.setattr(experiments, "__path__", [*experiments.__path__, str(tmp_path)])
    names = [each.name for each in catalog.in_suite()]
    assert names == [*before[:1], "outside", *before[1:]]
    assert catalog.experiment("outside").order == 15
    assert catalog.experiment("outside-on-demand").on_demand
    with pytest.raises(UnknownNameError, match="outside_folder"):
        catalog.experiment("outside_folder")
    assert catalog.profiles_of(catalog.experiment("outside")) == ["full", "quick"]


def test_names_and_orders_are_each_ones_own() -> None:
    every = [*catalog.in_suite(), catalog.experiment("replay_recording")]
    for values in ([each.name for each in every], [each.order for each in every]):
        assert len({*values}) == len(values)


def test_a_child_imports_the_experiment_that_it_runs_only() -> None:
    code = """
import sys
from allocmark.experiments.catalog import experiment
experiment("context")
print([name for name in sys.modules if name.endswith(".latency.experiment")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
