"""What asv's files hold after a run: the figures of its documents, under the names of the stack."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine import identity
from allocmark.machine.frameworks import Share
from allocmark.measure.run import Measured, Plan
from allocmark.schema import documents
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.metrics import fragmentation, streams
from allocmark.system.errors import AllocmarkError
from tests.support.compare_samples import document

tracked_run = pytest.importorskip("allocmark.asv.tracked_run", reason="asv is not installed")
ROOT = Path(__file__).resolve().parents[2]
TORCH = Share("torch", ("torch",))
HELD = "streams.PrivatePools.track_held"
PAIR = "streams.Tasks.track_pair"
PEAK = "fragmentation.Fragmentation.track_peak_reserved"


class Stack:
    machine, python, name = "gpu", "3.12", "stack"
    gpu, driver, cuda = "A GPU", "580.1", "13.0"
    framework, framework_version, framework_cuda, total_bytes = "torch", "2.11", "13.0", 8 << 30


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """asv's configuration of a project with one revision, on a machine with one stack."""
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(tracked_run, "read_stack", lambda *_: Stack)
    monkeypatch.setattr(tracked_run.trial, "leave_out_unusable", dict)
    monkeypatch.setattr(Plan, "stacks", lambda self: {TORCH: Stack} if self.experiments else {})
    conditions = type("Conditions", (), {"cpu_model": "CPU"})
    monkeypatch.setattr(identity, "read_conditions", lambda device: conditions)
    conf = tracked_run.Config.from_json({"repo": str(tmp_path), "branches": ["main"]})
    conf.benchmark_dir = str(ROOT / "benchmarks")
    return conf


def run(
    monkeypatch: pytest.MonkeyPatch,
    conf: Any,
    tmp_path: Path,
    figures: list[Figure],
    **request: Any,
) -> tuple[list[str], Mapping[str, Any]]:
    """Carry out a run that measures these figures; return its experiments, and asv's file."""
    path = tmp_path / "streams.torch-native.json.gz"
    documents.write(path, replace(document(*figures), probe="streams", subject="torch-native"))
    measured: list[str] = []

    def carry_out(plan: Plan, stacks: Any, save: Any) -> list[Path]:
        measured.extend(experiment.name for experiment in plan.experiments)
        found: Measured = {TORCH: [path]}
        save(found)
        return [path]

    monkeypatch.setattr(tracked_run, "carry_out", carry_out)
    results = tmp_path / "results"
    tracked_run.run(conf, tracked_run.TrackedRun(results, PROFILES["quick"], **request))
    files = sorted(results.glob("*/*-stack-*.json"))
    return measured, json.loads(files[-1].read_text()) if files else {}


def held(pool: str, stage: str, value: float) -> Figure:
    return streams.HELD_BYTES.figure("m", {"pool": pool, "stage": stage}, value)


def column(file: Mapping[str, Any], name: str, column: str) -> Any:
    row = dict(zip(file["result_columns"], file["results"][name], strict=False))
    return row.get(column)


def test_figures_stand_where_the_parameters_say(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    axes: Mapping[str, Axis] = {"use": "private", "streams": 2, "bytes": 1 << 20}
    pair = Figure("pair_ns", "ns", "time", "m", axes, 2000.0, [1000.0, 2000.0, 3000.0])
    measured, file = run(monkeypatch, conf, tmp_path, [held("graph", "live", 7.0), pair])
    assert len(measured) == 10
    values = dict(enumerate(column(file, HELD, "result")))
    assert values.pop(4) == 7.0  # torch-native, graph, live
    assert all(math.isnan(value) for value in values.values())
    place = 2 * 15 + 1  # torch-native, private, 2 streams
    assert column(file, PAIR, "result")[place] == pytest.approx(2e-6)
    assert column(file, PAIR, "samples")[place] == pytest.approx([1e-6, 2e-6, 3e-6])
    assert column(file, PAIR, "stats_repeat")[place] == 3
    assert file["params"] == {
        **{"machine": "gpu", "gpu_memory": "8 GiB", "cpu": "CPU"},
        **{"os": file["params"]["os"], "arch": file["params"]["arch"], "python": "3.12"},
        **{"gpu": "A-GPU", "driver": "580.1", "cuda": "13.0", "torch": "2.11", "profile": "quick"},
    }
    name = "stack-py3.12-cuda13.0-driver580.1-gpuA-GPU-profilequick-torch2.11"
    assert file["env_name"] == name
    assert (tmp_path / "results" / "gpu" / f"{file['commit_hash'][:8]}-{name}.json").is_file()
    machine = json.loads((tmp_path / "results" / "gpu" / "machine.json").read_text())
    assert machine["gpu_memory"] == "8 GiB" and "driver" not in machine
    started = column(file, HELD, "started_at")
    assert started == 1000 * datetime.fromisoformat(document().started).timestamp()
    assert file["durations"]["<setup_cache streams>"] == document().seconds


def test_a_filter_measures_its_experiments_and_keeps_the_other_results(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    run(monkeypatch, conf, tmp_path, [held("graph", "live", 7.0), held("mempool", "live", 8.0)])
    figures = [held("graph", "live", 1.0), held("mempool", "live", 2.0)]
    measured, file = run(
        monkeypatch, conf, tmp_path, figures, patterns=[r"track_held\(.*native.*graph"]
    )
    assert measured == ["streams"]
    values = column(file, HELD, "result")
    assert (values[4], values[0]) == (1.0, 8.0)
    assert PAIR in file["results"]


def test_each_stack_has_a_file_of_its_own_figures_and_benchmarks(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    class Other(Stack):
        framework, framework_version, name = "tensorflow", "2.21", "other"

    both = ("torch", "tensorflow")
    first, second = (Share(name, both) for name in both)
    monkeypatch.setattr(Plan, "stacks", lambda self: {first: Stack, second: Other})
    paths = {}
    for share, subject in ((first, "torch-native"), (second, "tf-growth")):
        path = paths[share] = tmp_path / f"fragmentation.{subject}.json.gz"
        figure = fragmentation.PEAK_RESERVED_BYTES.figure(
            "m", {"workload": "uniform"}, len(subject)
        )
        documents.write(path, replace(document(figure), probe="fragmentation", subject=subject))

    def carry_out(plan: Plan, stacks: Any, save: Any) -> list[Path]:
        save({share: [path] for share, path in paths.items()})
        return list(paths.values())

    monkeypatch.setattr(tracked_run, "carry_out", carry_out)
    results = tmp_path / "results"
    tracked_run.run(conf, tracked_run.TrackedRun(results, PROFILES["quick"]))
    files = [json.loads(file.read_text()) for file in results.glob("*/*-stack-*.json")]
    by_framework = {next(n for n in both if n in file["params"]): file for file in files}
    values = {
        name: [value for value in column(file, PEAK, "result") if not math.isnan(value)]
        for name, file in by_framework.items()
    }
    assert values == {"torch": [len("torch-native")], "tensorflow": [len("tf-growth")]}
    assert "latency.OperationLatency.track_hit_pair" in by_framework["tensorflow"]["results"]
    assert HELD in by_framework["torch"]["results"]
    assert HELD not in by_framework["tensorflow"]["results"]  # It names torch's allocators only.


def test_samples_are_dropped_or_joined_as_asv_does(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    axes: Mapping[str, Axis] = {"use": "private", "streams": 1, "bytes": 1 << 20}
    pair = Figure("pair_ns", "ns", "time", "m", axes, 2.0, [1.0, 2.0, 3.0])
    run(monkeypatch, conf, tmp_path, [pair])
    _, file = run(monkeypatch, conf, tmp_path, [pair], append_samples=True)
    assert len(column(file, PAIR, "samples")[30]) == 6
    _, file = run(monkeypatch, conf, tmp_path, [pair], record_samples=False)
    assert column(file, PAIR, "samples") is None
    assert column(file, PAIR, "stats_repeat")[30] == 3


def test_existing_results_are_not_measured_again_where_that_is_said(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    skip = {"patterns": ["streams", "placement"], "skip": ["successful"]}
    run(monkeypatch, conf, tmp_path, [held("graph", "live", 7.0)], patterns=["streams"])
    measured, file = run(monkeypatch, conf, tmp_path, [held("graph", "live", 1.0)], **skip)
    assert measured == ["placement"]
    assert column(file, HELD, "result")[4] == 7.0
    measured, _ = run(monkeypatch, conf, tmp_path, [], **skip)
    assert measured == []


def test_results_are_kept_under_the_machine_and_revision_that_are_named(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    _, file = run(monkeypatch, conf, tmp_path, [], machine="mine", commit="HEAD")
    assert file["params"]["machine"] == "mine"
    assert (tmp_path / "results" / "mine" / "machine.json").is_file()


def test_a_file_of_another_stack_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    run(monkeypatch, conf, tmp_path, [])
    (file,) = (tmp_path / "results" / "gpu").glob("*-stack-*.json")
    file.write_text(file.read_text().replace('"580.1"', '"570.1"'))
    before = file.read_bytes()
    with pytest.raises(AllocmarkError, match="driver '570.1' is now '580.1'"):
        run(monkeypatch, conf, tmp_path, [])
    assert file.read_bytes() == before


def test_asvs_line_has_ended_where_progress_begins(
    monkeypatch: pytest.MonkeyPatch,
    conf: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    events: list[str] = []
    monkeypatch.setattr(tracked_run.trial, "leave_out_unusable", lambda: {"tensorflow": "no"})
    monkeypatch.setattr(tracked_run.log, "info", lambda *_, **__: events.append("line"))
    monkeypatch.setattr(tracked_run.log, "flush", lambda: events.append("flush"))
    monkeypatch.setattr(tracked_run, "carry_out", lambda *_: events.append("measure"))
    tracked_run.run(conf, tracked_run.TrackedRun(tmp_path / "results", PROFILES["quick"]))
    assert events[: events.index("measure")] == ["flush"]
    assert capsys.readouterr().err.startswith("tensorflow is left out: no (")


@pytest.mark.parametrize("verbose", [True, False])
def test_asvs_tables_are_printed_on_request(
    monkeypatch: pytest.MonkeyPatch,
    conf: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    verbose: bool,
) -> None:
    tracked_run.log.enable()
    run(monkeypatch, conf, tmp_path, [held("graph", "live", 7.0)], verbose=verbose)
    tracked_run.log.flush()
    assert ("streams.PrivatePools.track_held" in capsys.readouterr().out) is verbose


def test_without_a_revision_nothing_is_measured(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path
) -> None:
    with pytest.raises(AllocmarkError, match="unknown revision nosuch"):
        run(monkeypatch, conf, tmp_path, [], commit="nosuch")
    conf.repo = str(tmp_path / "nosuch")
    with pytest.raises(AllocmarkError, match="asv cannot tell which revision this is"):
        run(monkeypatch, conf, tmp_path, [])
    assert not (tmp_path / "results").exists()
