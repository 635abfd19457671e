"""The derived database: stacks as commits, tags where versions change, steps that asv finds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from allocmark.asv.history import build, database, publish
from allocmark.system.errors import AllocmarkError

DAY_MS = 86_400_000
NAME = "latency.Hits.track_pair"


def _result(machine: str, driver: str, torch: str, day: int, value: float) -> dict[str, Any]:
    params = {"machine": machine, "gpu": "Test", "driver": driver, "torch": torch,
              "profile": "quick", "python": "3.12", "kernel": str(day)}  # fmt: skip
    name = f"stack-driver{driver}-torch{torch}"
    row = [[value, 2 * value], [["512", "2048"]], "1", 1_700_000_000_000 + day * DAY_MS, 1.0]
    return {
        "commit_hash": "0" * 40, "env_name": name, "date": 1_600_000_000_000, "params": params,
        "python": "3.12", "requirements": {"driver": driver}, "env_vars": {}, "durations": {},
        "result_columns": ["result", "params", "version", "started_at", "duration"],
        "results": {NAME: row}, "version": 2,
    }  # fmt: skip


def _put(root: Path, content: dict[str, Any]) -> None:
    machine = content["params"]["machine"]
    folder = root / machine
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"00000000-{content['env_name']}.json").write_text(json.dumps(content))
    (folder / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
    benchmark = {
        "code": "", "name": NAME, "param_names": ["bytes"], "params": [["512", "2048"]],
        "type": "time", "unit": "seconds", "version": "1", "timeout": 60,
    }  # fmt: skip
    (root / "benchmarks.json").write_text(json.dumps({NAME: benchmark, "version": 2}))


def _git(folder: Path, *words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve stacks of one machine: the driver changes twice, torch each night, a step at 7."""
    root = tmp_path_factory.mktemp("record")
    for day in range(12):
        driver = ("580.1", "580.2", "581.3")[day // 4]
        value = 1e-6 if day < 7 else 1.2e-6
        _put(root / f"night{day}", _result("m", driver, f"2.{day}", day, value))
    return root


def test_commits_are_stacks_in_the_order_first_run(nights: Path, tmp_path: Path) -> None:
    database = tmp_path / "database"
    assert build([nights], database) == []
    names = _git(database, "log", "--reverse", "--format=%s")
    assert names == [
        f"m stack-driver{('580.1', '580.2', '581.3')[day // 4]}-torch2.{day}" for day in range(12)
    ]
    dates = _git(database, "log", "--reverse", "--format=%at %ct")
    seconds = [1_700_000_000 + day * 86_400 for day in range(12)]
    assert dates == [f"{second} {second}" for second in seconds]
    tags = _git(database, "tag")
    assert "m-driver-580.2" in tags and "m-driver-581.3" in tags and "m-torch-2.11" in tags
    assert not any("580.1" in tag for tag in tags)


def test_asv_publishes_one_unbroken_graph_and_finds_the_step(nights: Path, tmp_path: Path) -> None:
    database = tmp_path / "database"
    build([nights], database)
    site = publish(database)
    graphs = [p for p in (site / "graphs").rglob(f"{NAME}.json") if "summary" not in p.parts]
    assert len(graphs) == 1
    assert [point[0] for point in json.loads(graphs[0].read_bytes())] == list(range(12))
    regressions = json.loads((site / "regressions.json").read_bytes())["regressions"]
    assert {entry[0] for entry in regressions} == {f"{NAME}(512)", f"{NAME}(2048)"}
    # Each step: the revision before, the one it came with, and both values.
    assert {entry[6][0][1] for entry in regressions} == {7}


def test_a_stack_that_was_run_again_stays_where_it_was(tmp_path: Path) -> None:
    _put(tmp_path / "n0", _result("m", "1", "2.0", 0, 1.0))
    _put(tmp_path / "n1", _result("m", "2", "2.0", 1, 1.0))
    _put(tmp_path / "n2", _result("m", "1", "2.0", 2, 5.0))
    build([tmp_path], tmp_path / "database")
    assert len(_git(tmp_path / "database", "log", "--format=%s")) == 2
    (first,) = (tmp_path / "database" / "results" / "m").glob(
        f"{_git(tmp_path / 'database', 'rev-list', '--max-parents=0', 'HEAD')[0]}*"
    )
    assert json.loads(first.read_bytes())["results"][NAME][0] == [5.0, 10.0]


def test_results_are_never_written_to(nights: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in nights.rglob("*")}
    build([nights], tmp_path / "database")
    build([nights], tmp_path / "database")
    assert {path: path.stat().st_mtime_ns for path in nights.rglob("*")} == before


def test_a_folder_with_something_else_is_not_emptied(nights: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(AllocmarkError, match="holds something else"):
        build([nights], tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_damaged_file_is_left_out_and_named(nights: Path, tmp_path: Path) -> None:
    folder = tmp_path / "more" / "m"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text("{}")
    (folder / "00000000-broken.json").write_text('{"results"')
    (reason,) = build([nights, tmp_path / "more"], tmp_path / "database")
    assert "broken.json is no result file of asv" in reason


def test_a_stack_that_asv_has_kept_nothing_of_is_named(nights: Path, tmp_path: Path) -> None:
    versions = ("torch2.11.0-driver580.1", "tensorflow2.21.0-driver580.1")
    folders = [tmp_path / "more" / "m" / stack / "quick" for stack in versions]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "latency.x.json.gz").touch()
    (told,) = build([nights, tmp_path / "more"], tmp_path / "history")
    assert told.startswith(f"{folders[1]} has no result file of asv")


def test_nothing_tracked_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="is tracked"):
        build([tmp_path], tmp_path / "database")


@pytest.mark.parametrize(
    ("script", "code", "part"),
    [
        ("echo 'error: write: No space left on device' >&2; exit 1", 3, "the disk is full: "),
        ("echo first >&2; echo 'fatal: odd' >&2; exit 1", 2, "git init failed in "),
    ],
)
def test_what_git_cannot_do_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, code: int, part: str
) -> None:
    (tmp_path / "git").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AllocmarkError, match=f"^{part}") as raised:
        database._git(tmp_path, "init")
    assert raised.value.exit_code == code
    assert "\n" not in str(raised.value)


def test_a_relative_folder_will_do(
    nights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    build([nights], Path("build/history"))
    assert len(_git(tmp_path / "build/history", "log", "--format=%h")) == 12


def test_what_asv_kept_nothing_of_is_made_of_the_documents(tmp_path: Path) -> None:
    """The committed record has TensorFlow's documents, and asv's files of torch alone."""
    project = Path(__file__).parents[3]
    (left_out, *_) = build([project / "results"], tmp_path / "without")
    assert "tensorflow" in left_out and left_out.endswith("measure it without a filter")
    assert build([project / "results"], tmp_path / "with", project) == []
    contents = [
        json.loads(path.read_bytes())
        for path in (tmp_path / "with" / "results").glob("*/*-stack.json")
    ]
    text = json.dumps([content["results"] for content in contents])
    assert "tf-growth" in text and "torch-native" in text
    assert not (project / "results" / "derived").exists()
