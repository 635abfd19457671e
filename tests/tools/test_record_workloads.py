"""The recorder on the emulated driver: what it writes is what torch itself counted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.tools import record_workloads
from allocmark.workloads import placement_file, programs, trace_file
from allocmark.workloads.event_trace import Op
from allocmark.workloads.history import SegmentOp
from tests.support.command import allocmark
from tests.support.emulation import needs_torch, run_on_h200

RECORD = ("-m", "allocmark", "dev", "record-workloads")


@needs_torch
def test_a_recording_equals_torchs_own_counters(tmp_path: Path) -> None:
    done = run_on_h200(
        *RECORD,
        *("--out", str(tmp_path), "--program", "serving", "--program", "transformer"),
        *("--steps", "3", "--twice"),
    )
    assert done.returncode == 0, done.stderr
    for name in ("serving", "transformer"):
        trace = trace_file.read(tmp_path / f"{name}.trace.gz")
        placement = placement_file.read(tmp_path / f"{name}.placement.gz")
        truth = json.loads((tmp_path / f"{name}.torch-native.json").read_text())
        assert trace.origin == placement.origin == truth
        assert trace.peak_requested_bytes == truth["peak_requested_bytes"]
        assert 1 << 30 < trace.peak_requested_bytes <= truth["peak_allocated_bytes"]
        assert truth["gpu"] == "Emulated NVIDIA H200"
        assert (truth["program"], truth["setting"], truth["steps"]) == (name, "torch-native", 3)
        assert trace.streams == 1
        taken = placement.size[placement.op == SegmentOp.ALLOC]
        assert len(taken) == truth["driver_allocs"]
        # Nothing was given back on the way, so what was taken is what was reserved at the peak.
        assert truth["driver_frees"] == 0
        assert taken.sum() == truth["peak_reserved_bytes"]
        # A program leaves nothing but the workspaces that cuBLAS keeps for its threads.
        left = (trace.op == Op.ALLOC).sum() - (trace.op == Op.FREE).sum()
        assert 1 <= left <= 3


@needs_torch
def test_another_setting_gives_counters_only(tmp_path: Path) -> None:
    done = run_on_h200(
        *RECORD,
        *("--out", str(tmp_path), "--program", "serving", "--steps", "3", "--jobs", "2"),
        *("--setting", "torch-expandable", "--setting", "torch-async"),
    )
    assert done.returncode == 0, done.stderr
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"serving.torch-expandable.json", "serving.torch-async.json"}
    expandable = json.loads((tmp_path / "serving.torch-expandable.json").read_text())
    assert expandable["peak_reserved_bytes"] >= expandable["peak_requested_bytes"] > 1 << 30
    pool = json.loads((tmp_path / "serving.torch-async.json").read_text())
    assert pool["peak_reserved_bytes"] > 1 << 30
    assert "driver_allocs" not in pool  # Torch's front over the driver's pool does not count them.


@needs_torch
def test_the_convolution_net_runs_and_is_recorded(tmp_path: Path) -> None:
    # Four steps: the first evaluation is among them.
    done = run_on_h200(*RECORD, "--out", str(tmp_path), "--program", "convnet", "--steps", "4")
    assert done.returncode == 0, done.stderr
    trace = trace_file.read(tmp_path / "convnet.trace.gz")
    assert trace.peak_requested_bytes == trace.origin["peak_requested_bytes"]
    assert 1 << 30 < trace.peak_requested_bytes < 8 << 30


def test_without_a_gpu_it_says_so_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert allocmark(*RECORD[2:], "--out", str(tmp_path), "--program", "serving") == 2
    assert capsys.readouterr().err == (
        "allocmark: serving under torch-native ended with exit code 2: "
        "torch finds no usable GPU: record where there is one\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_unknown_programs_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="choose from transformer, convnet, serving"):
        record_workloads.run("transformers", "torch-native", tmp_path)
    with pytest.raises(UnknownNameError, match="unknown torch setting 'cuda-malloc'"):
        record_workloads.run("serving", "cuda-malloc", tmp_path)
    with pytest.raises(UnknownNameError, match="unknown program"):
        programs.program("nothing")


def test_a_recording_that_differs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from allocmark.workloads import seeded

    made = iter([seeded.generate("uniform"), seeded.generate("uniform", seed=2)])

    def run(name: str, setting: str, out: Path, steps: int | None, device: int) -> None:
        trace_file.write(out / f"{name}{trace_file.SUFFIX}", next(made))

    monkeypatch.setattr(record_workloads, "run", run)
    with pytest.raises(AllocmarkError, match="serving does not repeat"):
        record_workloads.record_twice("serving", tmp_path)


def test_a_process_that_hangs_or_dies_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("python", 300)

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(AllocmarkError, match="took longer than 300 s"):
        record_workloads.run("serving", "torch-native", tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(AllocmarkError, match="ended with exit code 1: no message"):
        record_workloads.run("serving", "torch-native", tmp_path)


def test_what_the_user_exported_does_not_reach_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, str] = {}

    def look(*_: object, env: dict[str, str], **__: object) -> subprocess.CompletedProcess[bytes]:
        seen.update(env)
        return subprocess.CompletedProcess([], 0, b"", b"")

    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:21")
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1")
    monkeypatch.setattr(subprocess, "run", look)
    record_workloads.run("serving", "torch-native", tmp_path)
    assert not [name for name in seen if name.startswith("PYTORCH_")]
    record_workloads.run("serving", "torch-expandable", tmp_path)
    assert seen["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
