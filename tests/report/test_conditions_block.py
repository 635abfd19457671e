"""The block under each table: what it says of values that no GPU had computed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import report_samples as samples

from allocmark.figures import Figure
from allocmark.report.conditions import conditions
from allocmark.report.panel import panels
from allocmark.report.runs import runs
from allocmark.store import load


def block(root: Path, notes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the block over the fragmentation documents of these subjects and their notes."""
    for subject, told in notes.items():
        made = samples.fragmentation(subject, 0.1, 100)
        samples.put(root, replace(made, emulated=True, conditions={"notes": told}))
    store = load(root)
    return dict(conditions(store, store.figures))


def test_computed_values_that_were_copied_are_a_sentence(tmp_path: Path) -> None:
    found = block(
        tmp_path,
        {"peeks": {"computed_values_copied": True, "setting": "a"}, "not": {"setting": "a"}},
    )
    assert found["computed values"].startswith("peeks: values computed on the device were copied")
    assert found["setting"] == "a"
    assert "computed values copied" not in found  # said once, and in words


def test_where_none_were_copied_nothing_is_said(tmp_path: Path) -> None:
    assert "computed values" not in block(tmp_path, {"not": {"setting": "a"}})


def test_errors_and_the_time_of_stages_are_no_conditions(tmp_path: Path) -> None:
    made = samples.fragmentation("torch-native", 0.1, 100)
    held = {"notes": {"error: too late": "RuntimeError: no"}, "seconds": {"uniform": 1.5}}
    samples.put(tmp_path, replace(made, conditions=held))
    store = load(tmp_path)
    found = dict(conditions(store, store.figures))
    assert not {"error: too late", "uniform", "seconds"} & found.keys()


def test_fields_have_the_names_that_people_use(tmp_path: Path) -> None:
    made = samples.fragmentation("torch-native", 0.1, 100)
    held = {"sm_clock_mhz": 345, "power_w": 76.5, "ecc": True, "temperature_c": 30}
    samples.put(tmp_path, replace(made, conditions=held))
    store = load(tmp_path)
    found = dict(conditions(store, store.figures))
    assert found["SM clock (MHz)"] == "345"
    assert found["power (W)"] == "76.5"
    assert found["ECC"] == "yes"
    assert found["temperature (°C)"] == "30"


def test_figures_of_several_hosts_say_whose_they_are(tmp_path: Path) -> None:
    for subject, cpus in (("torch-native", 16), ("tf-growth", 32)):
        held = {"before": {"cpu_count": cpus, "sm_clock_mhz": 100 * cpus, "gpu_count": 1}}
        samples.put(tmp_path, replace(samples.fragmentation(subject, 0.1, 100), conditions=held))
    store = load(tmp_path)
    found = dict(conditions(store, store.figures))
    assert set(found["CPUs"].split("; ")) == {"16 (torch-native)", "32 (tf-growth)"}
    assert found["GPUs"] == "1"
    assert found["SM clock (MHz)"] == "1600 to 3200"
    assert [(run.gpus, run.cpus) for run in runs(panels(store)[0])] == [(1, 16), (1, 32)]


def test_gpus_that_figures_name_are_counted_where_no_one_else_did(tmp_path: Path) -> None:
    shares = [
        Figure("mode_share", "share", "exact", "test", {"gpu": gpu}, 0.9, [0.9]) for gpu in (0, 1)
    ]
    samples.put(tmp_path, samples.document("several_gpus", "tf-greedy", shares))
    store = load(tmp_path)
    assert dict(conditions(store, store.figures))["GPUs"] == "2"
    (run,) = runs(panels(store)[0])
    assert (run.host, run.experiments) == (("2 GPUs",), ("several_gpus",))
