from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from allocmark.machine import conditions as conditions_module
from allocmark.machine import nvml as nvml_module
from allocmark.machine.conditions import Conditions, differences, read_conditions
from allocmark.machine.nvml import processes_on
from tests.support.nvml import MIB, FakeNvml, error, process


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml_module, "_uuid_from_driver", lambda device: None)
    return FakeNvml(monkeypatch, ["NVIDIA H200"])


def test_an_idle_card_to_the_last_field(nvml: FakeNvml) -> None:
    found = read_conditions(0)
    assert (found.other_processes, found.other_process_bytes) == (0, 0)
    assert found.process_memory is None  # Nobody is there to tell it of.
    assert found.device_used_bytes == 100 * MIB
    assert found.gpu_utilization_percent == 0
    assert (found.sm_clock_mhz, found.sm_clock_max_mhz) == (345, 1980)
    assert (found.memory_clock_mhz, found.memory_clock_max_mhz) == (345, 1980)
    assert found.slowed_by == ()
    assert (found.temperature_c, found.power_w, found.power_limit_w) == (30, 76.5, 700)
    assert (found.ecc, found.mig, found.persistence) == (True, False, True)
    assert (found.compute_mode, found.wddm) == ("default", None)
    assert found.gpu_count == 1


def test_neighbours_are_all_but_this_process(nvml: FakeNvml) -> None:
    running = [process(os.getpid(), 500 * MIB), process(1, 200 * MIB)]
    drawing = [process(1, 200 * MIB), process(2, 30 * MIB)]
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: running)
    nvml.says("nvmlDeviceGetGraphicsRunningProcesses", lambda handle: drawing)
    found = read_conditions(0)
    assert (found.other_processes, found.other_process_bytes) == (2, 230 * MIB)
    assert found.process_memory is True


def test_memory_that_nvml_hides_is_not_zero(nvml: FakeNvml) -> None:
    running = [process(1, None), process(2, 5 * MIB)]
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: running)
    found = read_conditions(0)
    assert (found.other_processes, found.other_process_bytes) == (2, None)
    assert found.process_memory is False


def test_no_list_of_processes_is_not_an_empty_one(nvml: FakeNvml) -> None:
    for kind in ("Compute", "Graphics"):
        nvml.says(f"nvmlDeviceGet{kind}RunningProcesses", error("NO_PERMISSION"))
    found = read_conditions(0)
    assert (found.other_processes, found.process_memory) == (None, False)
    assert processes_on(pynvml, 0) is None


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x0, ()),
        (0x3, ()),  # Idle, and clocks that somebody has set.
        (0x4, ("power limit",)),
        (0x28, ("hardware slowdown", "heat (software)")),
    ],
)
def test_reasons_for_a_lower_clock(nvml: FakeNvml, bits: int, words: tuple[str, ...]) -> None:
    nvml.says("nvmlDeviceGetCurrentClocksThrottleReasons", lambda handle: bits)
    assert read_conditions(0).slowed_by == words


def test_modes(nvml: FakeNvml) -> None:
    nvml.says("nvmlDeviceGetMigMode", lambda handle: [1, 1])
    nvml.says("nvmlDeviceGetComputeMode", lambda handle: 3)
    nvml.says("nvmlDeviceGetCurrentDriverModel", lambda handle: 0)
    nvml.says("nvmlDeviceGetPersistenceMode", lambda handle: 0)
    found = read_conditions(0)
    assert (found.mig, found.wddm, found.persistence) == (True, True, False)
    assert found.compute_mode == "exclusive process"


@pytest.mark.parametrize("name", ["NOT_SUPPORTED", "NO_PERMISSION", "FUNCTION_NOT_FOUND"])
def test_a_card_that_answers_nothing(nvml: FakeNvml, name: str) -> None:
    needed = ("nvmlDeviceGetCount", "nvmlDeviceGetUUID", "nvmlDeviceGetName")
    for function in vars(pynvml).copy():
        asks = function.startswith("nvmlDeviceGet") and "Handle" not in function
        if asks and function not in needed:
            nvml.says(function, error(name))
    found = read_conditions(0).to_json()
    host = {"process_memory", "mps", "container", "cpu_model", "cpu_count", "gpu_count"}
    host |= {"governor", "kernel", "host_memory_bytes", "load_average", "host_name", "gpu_uuid"}
    assert {field for field, value in found.items() if value is not None} <= host
    assert found["kernel"]


def test_a_machine_without_nvml_still_has_a_host(nvml: FakeNvml) -> None:
    nvml.says("nvmlInit", error("LIBRARY_NOT_FOUND"))
    found = read_conditions(0)
    assert found.device_used_bytes is None
    assert found.cpu_count == len(os.sched_getaffinity(0))
    assert found.host_memory_bytes and found.host_memory_bytes > MIB


def test_plain_data(nvml: FakeNvml) -> None:
    assert json.loads(json.dumps(read_conditions(0).to_json()))["slowed_by"] == []


def test_a_service_that_shares_contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert read_conditions(0).mps is False
    (tmp_path / "control").touch()
    assert read_conditions(0).mps is True


@pytest.mark.parametrize(
    ("groups", "expected"),
    [(None, None), ("0::/init.scope", False), ("4:memory:/kubepods/burstable/pod1", True)],
)
def test_a_container_is_seen_by_its_groups(
    monkeypatch: pytest.MonkeyPatch, groups: str | None, expected: bool | None
) -> None:
    monkeypatch.setattr(conditions_module, "_CONTAINER_FILES", ())
    monkeypatch.setattr(conditions_module, "_content", lambda path: groups)
    assert conditions_module._container() is expected


def test_a_container_is_seen_by_its_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "env").touch()
    monkeypatch.setattr(conditions_module, "_CONTAINER_FILES", (str(tmp_path / "env"),))
    assert conditions_module._container() is True


def test_a_host_that_hides_its_load(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden() -> tuple[float, float, float]:
        raise OSError

    monkeypatch.setattr(os, "getloadavg", hidden)
    assert read_conditions(0).load_average is None


def test_differences_name_what_changed() -> None:
    before = Conditions(sm_clock_mhz=345, other_processes=0, ecc=True).to_json()
    after = Conditions(sm_clock_mhz=1980, other_processes=0, ecc=None).to_json()
    assert differences(before, after) == {"sm_clock_mhz": (345, 1980), "ecc": (True, None)}
    assert differences({"old": 1}, {"new": 2}) == {"old": (1, None), "new": (None, 2)}


def test_a_name_that_is_no_text_is_left_out(nvml: FakeNvml) -> None:
    def garbled(handle: int) -> SimpleNamespace:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no")

    nvml.says("nvmlDeviceGetUtilizationRates", garbled)
    assert read_conditions(0).gpu_utilization_percent is None
