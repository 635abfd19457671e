from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from allocmark.machine import nvml as nvml_module
from allocmark.machine import stack as stack_module
from allocmark.measure import doctor
from allocmark.measure.doctor import Finding, disturbances, examine, exit_code
from allocmark.meters import memory, timing
from allocmark.system.errors import AllocmarkError, NotMeasurableError
from tests.support.emulation import needs_emulator
from tests.support.nvml import MIB, FakeNvml, emulated_on, error, process

GIB = 1 << 30


class Trial:
    """A worker process that gets its context, as the driver would give it one."""

    pid = 4242

    def __init__(self, command: Sequence[str]) -> None:
        self.closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True

    def answer(self) -> Any:
        return None


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """A quiet H200 with torch for CUDA 13, TensorFlow for CUDA 12 and a compiler."""
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nvml_module, "_uuid_from_driver", lambda device: None)
    monkeypatch.setattr(memory, "_driver", lambda: None)
    monkeypatch.setattr(doctor, "WorkerProcess", Trial)
    monkeypatch.setattr(doctor, "compiler", lambda language: ["cc"])
    monkeypatch.setattr(doctor, "library", lambda: None)
    monkeypatch.setattr(doctor, "why_not", lambda framework: None)
    monkeypatch.setattr(stack_module, "is_emulated", lambda: False)
    frameworks = {"torch": "2.11.0+cu130", "torch cuda": "13.0", "asv": "0.6.6", "python": "3.12"}
    frameworks |= {"tensorflow": "2.21.0", "tensorflow cuda": "12.5"}
    monkeypatch.setattr(doctor, "installed", lambda framework="auto": _all(frameworks))
    fake = FakeNvml(monkeypatch, ["NVIDIA H200"])
    memory_info = SimpleNamespace(total=140 * GIB, used=GIB, reserved=0)
    fake.says("nvmlDeviceGetMemoryInfo", lambda handle, version=None: memory_info)
    _listed(fake, [process(Trial.pid, 518 * MIB)], only_while_read=True)
    return fake


def _all(known: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(("torch", "tensorflow", "cupy", "jax", "rmm", "asv")), **known}


def _listed(nvml: FakeNvml, running: Sequence[Any], only_while_read: bool = False) -> None:
    """Let NVML list these; the trial's process only once conditions have been read."""
    reads: Iterator[list[Any]] = iter([[]] if only_while_read else [])
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: next(reads, running))


def _of(findings: Sequence[Finding], check: str) -> Finding:
    (found,) = [finding for finding in findings if finding.check == check]
    return found


def test_a_good_machine(nvml: FakeNvml, tmp_path: Path) -> None:
    findings = examine(tmp_path / "results")
    assert exit_code(findings) == 0
    skips = {finding.check: finding.skipped for finding in findings if finding.level == "skip"}
    assert set(skips) == {"cupy", "rmm", "jax"}
    assert skips["cupy"] == ["cupy-pool", "context of cupy"]
    assert _of(findings, "GPU").sentence == "NVIDIA H200, 140 GiB, driver 580.159.04, CUDA 13.0"
    assert _of(findings, "process memory").level == "fine"
    assert not (tmp_path / "results").exists()  # To look is not to write.


def test_no_gpu_stops(nvml: FakeNvml, tmp_path: Path) -> None:
    nvml.says("nvmlInit", error("LIBRARY_NOT_FOUND"))
    findings = examine(tmp_path)
    assert exit_code(findings) == 2
    assert _of(findings, "GPU").level == "stop"
    assert _of(findings, "GPU").sentence.endswith("(allocmark emulate -- COMMAND)")
    assert _of(findings, "torch").level == "fine"  # The rest is said all the same.


def test_an_old_driver_stops(nvml: FakeNvml, tmp_path: Path) -> None:
    nvml.says("nvmlSystemGetDriverVersion", lambda: "470.256.02")
    findings = examine(tmp_path)
    assert exit_code(findings) == 2
    assert "too old" in _of(findings, "GPU").sentence


def test_a_neighbour_makes_it_unclear(nvml: FakeNvml, tmp_path: Path) -> None:
    _listed(nvml, [process(1, 3 * GIB), process(Trial.pid, MIB)])
    findings = examine(tmp_path)
    assert exit_code(findings) == 3
    assert _of(findings, "other processes").level == "unclear"
    (told,) = disturbances()  # What a run says as it begins.
    assert told.startswith("figures can be had but not trusted: other processes on the GPU (2)")


def test_a_quiet_gpu_disturbs_nothing_nor_does_one_that_cannot_be_asked(nvml: FakeNvml) -> None:
    _listed(nvml, [])
    assert disturbances() == []
    nvml.says("nvmlDeviceGetMemoryInfo", error("UNKNOWN"))
    assert disturbances() == []


def test_a_busy_gpu_without_processes_makes_it_unclear(nvml: FakeNvml, tmp_path: Path) -> None:
    nvml.says("nvmlDeviceGetUtilizationRates", lambda handle: SimpleNamespace(gpu=97, memory=1))
    found = _of(examine(tmp_path), "other processes")
    assert found.level == "unclear" and "97 % busy" in found.sentence


def test_a_full_gpu_skips_what_does_not_fit(nvml: FakeNvml, tmp_path: Path) -> None:
    memory_info = SimpleNamespace(total=140 * GIB, used=139 * GIB, reserved=0)
    nvml.says("nvmlDeviceGetMemoryInfo", lambda handle, version=None: memory_info)
    found = _of(examine(tmp_path), "free memory")
    assert found.level == "skip" and "only 1 GiB" in found.sentence


@pytest.mark.parametrize(
    ("function", "answer", "check", "level", "code"),
    [
        ("nvmlDeviceGetCurrentClocksThrottleReasons", 0x40, "clocks", "unclear", 3),
        ("nvmlDeviceGetMigMode", [1, 1], "MIG", "unclear", 3),
        ("nvmlDeviceGetCurrentDriverModel", 0, "driver model", "unclear", 3),
        ("nvmlDeviceGetComputeMode", 2, "compute mode", "stop", 2),
        ("nvmlDeviceGetComputeMode", 3, "compute mode", "skip", 0),
        ("nvmlDeviceGetPersistenceMode", 0, "persistence", "note", 0),
    ],
)
def test_each_mode(
    nvml: FakeNvml, tmp_path: Path, function: str, answer: Any, check: str, level: str, code: int
) -> None:
    nvml.says(function, lambda handle: answer)
    findings = examine(tmp_path)
    assert _of(findings, check).level == level
    assert exit_code(findings) == code


def test_a_service_that_shares_contexts_makes_it_unclear(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "control").touch()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert exit_code(examine(tmp_path)) == 3


def test_cuda_that_does_not_start_stops(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Trial] = []

    class Failing(Trial):
        def __init__(self, command: Sequence[str]) -> None:
            super().__init__(command)
            made.append(self)

        def answer(self) -> Any:
            raise NotMeasurableError("cuInit failed: system not yet initialized (802)")

    monkeypatch.setattr(doctor, "WorkerProcess", Failing)
    findings = examine(tmp_path)
    assert exit_code(findings) == 2
    assert "(802)" in _of(findings, "CUDA").sentence
    assert made[0].closed


def test_a_container_without_process_memory_skips_that_meter(
    nvml: FakeNvml, tmp_path: Path
) -> None:
    _listed(nvml, [])
    findings = examine(tmp_path)
    assert exit_code(findings) == 0
    assert _of(findings, "process memory").skipped == ("bytes by the meter nvml_process",)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({"torch": None}, "not installed"),
        ({"torch": "2.11.0+cpu", "torch cuda": None}, "without CUDA"),
    ],
)
def test_no_torch_for_cuda_skips_its_allocators(
    nvml: FakeNvml,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    known: dict[str, Any],
    words: str,
) -> None:
    monkeypatch.setattr(doctor, "installed", lambda framework="auto": _all(known))
    found = _of(examine(tmp_path), "torch")
    assert found.level == "skip" and words in found.sentence
    assert {"torch-native", "torch-async", "context of torch"} <= set(found.skipped)
    assert not any(name.startswith("cuda") for name in found.skipped)


def test_a_framework_in_another_interpreter_says_where(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "/opt/tf/python")
    findings = examine(tmp_path)
    sentence = "tensorflow 2.21.0 for CUDA 12.5, in /opt/tf/python"
    assert _of(findings, "tensorflow") == Finding("tensorflow", "fine", sentence)
    assert _of(findings, "torch").sentence == "torch 2.11.0+cu130 for CUDA 13.0"


def test_a_missing_tensorflow_says_how_to_add_it(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "installed", lambda framework="auto": _all({}))
    found = _of(examine(tmp_path), "tensorflow")
    assert found.level == "skip" and "ALLOCMARK_PYTHON_TENSORFLOW" in found.sentence
    assert "tf-growth" in found.skipped


def test_a_framework_that_does_not_see_the_gpu_skips(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = {"tensorflow": "libcudnn.so.9 is missing"}
    monkeypatch.setattr(doctor, "why_not", reasons.get)
    findings = examine(tmp_path)
    assert exit_code(findings) == 0
    found = _of(findings, "tensorflow")
    assert found.level == "skip" and found.sentence.endswith(
        "cannot use the GPU: libcudnn.so.9 is missing"
    )
    nvml.says("nvmlInit", error("LIBRARY_NOT_FOUND"))  # Without a GPU it is not tried.
    assert _of(examine(tmp_path), "tensorflow").level == "fine"


def test_an_interpreter_that_cannot_be_asked_skips(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(framework: str = "auto") -> dict[str, Any]:
        if framework == "torch":
            raise AllocmarkError("the interpreter for torch cannot say what it has")
        return _all({})

    monkeypatch.setattr(doctor, "installed", broken)
    findings = examine(tmp_path)
    assert _of(findings, "torch").level == "skip"
    assert _of(findings, "asv").level == "skip"


def test_a_cache_that_cannot_be_written_is_named_before_a_run_loses_by_it(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "library", timing.library.__wrapped__)
    found = _of(examine(tmp_path), "timing loop")
    assert found.level == "skip" and "set XDG_CACHE_HOME" in found.sentence


def test_no_compiler_skips_what_is_built(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(language: str) -> list[str]:
        raise NotMeasurableError(f"no {language.upper()} compiler")

    monkeypatch.setattr(doctor, "compiler", none)
    monkeypatch.setattr(doctor, "library", lambda: none("c"))
    findings = examine(tmp_path)
    assert _of(findings, "timing loop").level == "skip"
    assert _of(findings, "C++ compiler").level == "skip"


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_folder_that_cannot_be_written_stops(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(**_: object) -> Any:
        raise OSError(number, "no")

    monkeypatch.setattr(doctor.tempfile, "NamedTemporaryFile", refuse)  # type: ignore[attr-defined]
    findings = examine(tmp_path / "results")
    assert exit_code(findings) == 2
    assert _of(findings, "results").sentence == f"{tmp_path / 'results'} cannot be written (no)"


def test_a_nearly_full_disk_is_unclear(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * MIB))
    assert _of(examine(tmp_path), "results").level == "unclear"


def test_a_busy_host_is_a_note(
    nvml: FakeNvml, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0.0, 0.0))
    assert _of(examine(tmp_path), "host").level == "note"


@pytest.mark.parametrize(
    ("levels", "code"),
    [((), 0), (("fine", "note", "skip"), 0), (("skip", "unclear"), 3), (("unclear", "stop"), 2)],
)
def test_exit_codes(levels: Sequence[Any], code: int) -> None:
    assert exit_code([Finding("check", level, "sentence") for level in levels]) == code


@needs_emulator
def test_the_emulated_driver_says_so(tmp_path: Path) -> None:
    code = (
        "import json\nfrom pathlib import Path\n"
        "from allocmark.measure.doctor import examine, exit_code\n"
        f"found = examine(Path({str(tmp_path)!r}))\n"
        "print(json.dumps([exit_code(found), [[f.check, f.level] for f in found]]))"
    )
    exit_status, found = emulated_on(1, code)
    assert exit_status == 0
    assert ["GPU", "note"] in found
    assert ["process memory", "fine"] in found


@needs_emulator
@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("cuInit@1=error:999", "no context can be created: cuInit failed: "),
        ("cuMemAlloc@1+=error:2", "a context has no memory that can be used: "),
        ("cudaMalloc@1+=error:2", "a context has no memory that can be used: "),
        ("cudaMalloc@1=lost", "a context has no memory that can be used: "),
        ("cuMemsetD32@1=crash", "a context has no memory that can be used: a process ended by"),
    ],
)
def test_the_trial_finds_a_driver_that_cannot_start_or_allocate(
    tmp_path: Path, fault: str, sentence: str
) -> None:
    code = (
        "import json\nfrom pathlib import Path\n"
        "from allocmark.measure.doctor import examine, exit_code\n"
        f"found = examine(Path({str(tmp_path)!r}))\n"
        "print(json.dumps([exit_code(found), [f.sentence for f in found if f.check == 'CUDA']]))"
    )
    exit_status, sentences = emulated_on(1, code, ALLOCMARK_EMULATOR_FAULTS=fault)
    assert exit_status == 2
    assert sentences[0].startswith(sentence)
