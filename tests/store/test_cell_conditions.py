"""The block under each table: conditions, settings, spread, and the command that measures again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from allocmark.allocators import registry
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES
from allocmark.schema.figure import Figure, Kind
from allocmark.schema.intervals import sampled_figure
from allocmark.store.cell_conditions import NAMED, conditions, rerun
from allocmark.store.frame import Store, load
from allocmark.store.panel import panels
from allocmark.store.record_runs import runs
from allocmark.system.units import MIB
from tests.support import report_samples as samples


def _texts(store: Store, experiment: str = "") -> dict[str, str]:
    rows = store.figures
    shown = rows[rows["probe"] == experiment] if experiment else rows
    return {name: str(text) for name, text in conditions(store, shown)}


def block(root: Path, notes: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return the block over the fragmentation documents of these subjects and their notes."""
    for subject, told in notes.items():
        made = samples.fragmentation(subject, 0.1, 100)
        samples.put(root, replace(made, emulated=True, conditions={"notes": told}))
    store = load(root)
    return _texts(store)


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
    found = _texts(store)
    assert not {"error: too late", "uniform", "seconds"} & found.keys()


def test_fields_have_the_names_that_people_use(tmp_path: Path) -> None:
    made = samples.fragmentation("torch-native", 0.1, 100)
    held = {"sm_clock_mhz": 345, "power_w": 76.5, "ecc": True, "temperature_c": 30}
    samples.put(tmp_path, replace(made, conditions=held))
    store = load(tmp_path)
    found = _texts(store)
    assert found["SM clock (MHz)"] == "345"
    assert found["power (W)"] == "76.5"
    assert found["ECC"] == "yes"
    assert found["temperature (°C)"] == "30"


def test_figures_of_several_hosts_say_whose_they_are(tmp_path: Path) -> None:
    for subject, cpus in (("torch-native", 16), ("tf-growth", 32)):
        held = {"before": {"cpu_count": cpus, "sm_clock_mhz": 100 * cpus, "gpu_count": 1}}
        samples.put(tmp_path, replace(samples.fragmentation(subject, 0.1, 100), conditions=held))
    store = load(tmp_path)
    found = _texts(store)
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
    assert _texts(store)["GPUs"] == "2"
    (run,) = runs(panels(store)[0])
    assert (*map(str, run.host), *run.experiments) == ("2 GPUs", "several_gpus")


def _readings(*values: float, metric: str = "call_ns", kind: Kind = "time") -> Figure:
    return sampled_figure(metric, "ns", kind, "clock", {}, list(values))


def _spread(root: Path, *figures: Figure) -> str:
    samples.put(root, samples.document("latency", "torch-native", figures))
    store = load(root)
    return _texts(store)["spread"]


def test_figures_without_a_meter_are_not_given_that_of_others(tmp_path: Path) -> None:
    for subject, meter in (("a", "trim"), ("b", ""), ("c", "")):
        told = [Figure("call_ns", "ns", "time", meter, {"path": "give-back"}, 5.0, [5.0])]
        samples.put(tmp_path, samples.document("latency", subject, told))
    store = load(tmp_path)
    assert _texts(store)["meter"] == "trim; not recorded (b, c)"


def test_the_spread_is_of_figures_that_have_an_interval(tmp_path: Path) -> None:
    once = _readings(5.0, metric="first_ns")
    few = _readings(1.0, 9.0, metric="few_ns")
    wide = _readings(*range(1, 9), metric="wide_ns")
    narrow = _readings(*[100 + i / 10 for i in range(8)], metric="narrow_ns")
    exact = Figure("segments", "segments", "exact", "counters", {}, 3, [3, 3])
    told = {
        "exact": _spread(tmp_path / "1", exact),
        "once": _spread(tmp_path / "2", once, exact),
        "few": _spread(tmp_path / "3", once, few),
        "many": _spread(tmp_path / "4", once, few, wide, narrow, exact),
    }
    assert told == {
        "exact": "exact: repeats to the byte",
        "once": "no intervals: one reading each",
        "few": "no intervals: too few readings",
        "many": "95 % intervals; 1 of 2 figures wider than 5 % of the median",
    }


def test_a_limit_is_that_of_the_experiment_that_the_figures_are_of(tmp_path: Path) -> None:
    own = {"notes": {"setting": "memory_limit=8192"}}
    suite = samples.capacity("tf-limit")
    samples.put(tmp_path, replace(suite, conditions=own))
    samples.put(tmp_path, replace(samples.capacity("tf-growth"), conditions={}))
    for subject, limit in (("tf-limit", [4096.0 * MIB]), ("tf-growth", [])):
        figures = [Figure("limit_bytes", "bytes", "exact", "set", {}, value) for value in limit]
        figures.append(Figure("live_bytes", "bytes", "exact", "set", {}, 1 * MIB))
        samples.put(
            tmp_path, samples.document("tensorflow_policy", subject, figures, conditions={})
        )
    store = load(tmp_path)
    both = _texts(store)["setting"]
    assert both == (
        "memory_limit=8192 (capacity tf-limit); memory_limit=4096 (tensorflow_policy tf-limit)"
    )
    policy = _texts(store, "tensorflow_policy")["setting"]
    assert policy == "memory_limit=4096 (tf-limit)"
    capacity = _texts(store, "capacity")["setting"]
    assert capacity == "memory_limit=8192 (tf-limit)"
    rows = store.figures
    alone = rows[(rows["probe"] == "capacity") & (rows["subject"] == "tf-limit")]
    assert str(dict(conditions(store, alone))["setting"]) == "memory_limit=8192"


def _command(root: Path, probe: str, *subjects: str, emulated: bool = False) -> str:
    figure = Figure("retries", "retries", "exact", "counters", {}, 1)
    for subject in subjects:
        made = samples.document(probe, subject, [figure], profile="full")
        command = made.command.replace("quick", "full")
        samples.put(root, replace(made, command=command, emulated=emulated))
    return rerun(load(root).sources)


def test_a_command_measures_again_all_that_it_stands_under(tmp_path: Path) -> None:
    two = ("torch-native", "torch-split64")
    named = "--subject torch-native --subject torch-split64"
    run = "allocmark run --experiment"
    for probe in NAMED:
        told = _command(tmp_path / probe, probe, *two)
        assert told == f"{run} {probe} {named} --profile full"
        told = _command(tmp_path / f"{probe}-emulated", probe, *two, emulated=True)
        assert told == f"{run} {probe} --profile full"
    assert _command(tmp_path / "f", "fragmentation", *two) == f"{run} fragmentation --profile full"
    _command(tmp_path / "mixed", "fragmentation", *two)
    told = _command(tmp_path / "mixed", "pressure", *two)
    assert told == (f"{run} fragmentation --profile full; {run} pressure {named} --profile full")


def test_no_other_experiment_measures_more_subjects_that_are_named() -> None:
    known, full = list(registry().values()), PROFILES["full"]
    more = [
        each.name
        for each in catalog.in_suite()
        if set(each.subjects(known, full)) < set(each.subjects(known, replace(full, patient=True)))
    ]
    assert sorted(more) == sorted(NAMED)
