"""The plugin and the benchmarks as asv sees them: identity, cells, versions, refusals."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from allocmark.allocators import names, registry
from allocmark.machine import places
from allocmark.machine.frameworks import Share
from allocmark.machine.identity import refuse_to_mix
from allocmark.schema import run_state
from allocmark.system.errors import AllocmarkError

asv_discovery = pytest.importorskip("asv_runner.discovery", reason="asv is not installed")
asv_plugin = pytest.importorskip("allocmark.asv.plugin", reason="asv is not installed")
asv_ending = pytest.importorskip("allocmark.asv.exit", reason="asv is not installed")

ROOT = Path(__file__).resolve().parents[2]
MOST_CELLS = 1500


@pytest.fixture(scope="module")
def benchmarks() -> list[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        asv_discovery.update_sys_path(str(ROOT / "benchmarks"))
        return list(asv_discovery.disc_benchmarks(str(ROOT / "benchmarks")))


def cells(benchmark: Any) -> int:
    return len(list(itertools.product(*benchmark.params)))


def test_asv_holds_no_more_than_it_can_draw(benchmarks: list[Any]) -> None:
    counts = {benchmark.name: cells(benchmark) for benchmark in benchmarks}
    assert 0 < sum(counts.values()) <= MOST_CELLS, counts


def test_every_benchmark_has_a_version_set_by_hand_and_a_unit(benchmarks: list[Any]) -> None:
    for benchmark in benchmarks:
        assert benchmark.version.isdigit(), benchmark.name
        assert benchmark.unit != "unit", benchmark.name
        assert benchmark.setup_cache_timeout > 60, benchmark.name


def test_each_experiment_is_measured_once(benchmarks: list[Any]) -> None:
    keys = {benchmark.setup_cache_key for benchmark in benchmarks}
    modules = {benchmark.name.partition(".")[0] for benchmark in benchmarks}
    assert modules == {
        "context",
        "latency",
        "fragmentation",
        "streams",
        "pressure",
        "tensorflow_policy",
        "placement",
        "several_gpus",
    }
    assert len(keys) == len(modules) + 1  # Fragmentation asks two questions.


def test_the_axes_name_the_allocators_that_there_are() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        from benchmarks import common
    tracked = [*common.BASE_ALLOCATORS, *common.TENSORFLOW_ALLOCATORS]
    assert tracked == [name for name in names() if name in tracked]
    assert set(common.ALLOCATORS) <= set(registry())


def test_a_result_file_of_the_same_identity_may_grow(tmp_path: Path) -> None:
    file = tmp_path / "abc-stack.json"
    refuse_to_mix(file, {"driver": "580"})
    file.write_text(json.dumps({"params": {"driver": "580", "cpu": "x"}}))
    refuse_to_mix(file, {"driver": "580", "new": "1"})


def test_a_result_file_of_another_identity_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "abc-stack.json"
    file.write_text(json.dumps({"params": {"driver": "570", "cpu": "x"}}))
    with pytest.raises(AllocmarkError, match="driver '570' is now '580'") as refused:
        refuse_to_mix(file, {"driver": "580", "cpu": "x"})
    assert refused.value.exit_code == 2
    assert json.loads(file.read_text())["params"]["driver"] == "570"


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """What asv knows of a run into `tmp_path`, on a machine named ``gpu``.

    A run that ends lets asv come to its end without a further Ctrl-C, the tests after it do not.
    """
    kept = signal.getsignal(signal.SIGINT)

    class Stack:
        machine, name = "gpu", "stack"

    monkeypatch.setattr(asv_plugin, "current_stack", lambda framework=None: Stack)
    monkeypatch.setattr(asv_plugin, "_tell_left_out", lambda: None)
    monkeypatch.setattr(asv_plugin, "disturbances", list)
    monkeypatch.setattr(asv_plugin.frameworks, "shares", lambda: [Share("torch", ("torch",))])
    for variable in (asv_plugin.RESULTS, asv_plugin.PROFILE, asv_plugin.RUN):
        monkeypatch.setenv(variable, str(tmp_path))
    yield type("Conf", (), {"results_dir": "results"})()
    signal.signal(signal.SIGINT, kept)


def test_a_damaged_core_pace_ends_the_run_before_anything_is_measured(
    conf: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu" / "machine.pace").write_text("{")
    run = asv_plugin._measured(lambda **_: pytest.fail("it was measured"))
    with pytest.raises(asv_ending.StoppedBySentence) as stopped:
        run(conf, conf=conf)
    assert stopped.value.code == 2
    assert "machine.pace holds no pace" in capsys.readouterr().err


@pytest.mark.parametrize("at", ["the end", "the marking"])
def test_ctrl_c_as_asv_ends_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, conf: Any, tmp_path: Path, at: str
) -> None:
    def measured(**_: object) -> int:
        if at == "the marking":
            raise KeyboardInterrupt
        return 0

    def again(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    finish = run_state.finish

    def ended(folders: Sequence[Path]) -> None:
        finish(folders)
        again()

    monkeypatch.setattr(asv_plugin, "_mark_rest", again)
    monkeypatch.setattr(run_state, "finish", ended)
    run = asv_plugin._measured(measured)
    if at == "the end":
        assert run(conf, conf=conf) == 0
    else:
        with pytest.raises(asv_ending.StoppedBySentence) as stopped:
            run(conf, conf=conf)
        assert stopped.value.code == 3
    again()  # asv has not ended yet.
    state = run_state.read(tmp_path / "gpu" / "stack" / "full")
    assert state and (state.finished is not None) is (at == "the end")


@pytest.mark.parametrize(
    ("emulated", "told", "configured", "saved"),
    [
        (False, "", "results", "results"),
        (True, "", "results", "build/emulated/results"),
        (True, "", "./results/", "build/emulated/results"),
        (True, "", "mine", "mine"),
        (True, "/told/results", "results", "/told/results"),
    ],
)
def test_emulated_results_stay_out_of_the_record(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    emulated: bool,
    told: str,
    configured: str,
    saved: str,
) -> None:
    monkeypatch.setattr(places, "is_emulated", lambda: emulated)
    monkeypatch.setenv(asv_plugin.RESULTS, told)
    monkeypatch.chdir(tmp_path)
    conf = type("Conf", (), {"results_dir": configured})()
    assert asv_plugin._results_dir(conf) == saved


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"params": 1}'])
def test_a_damaged_result_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "abc-stack.json"
    file.write_text(content)
    with pytest.raises(AllocmarkError, match="damaged"):
        refuse_to_mix(file, {"driver": "580"})
