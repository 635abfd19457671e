from __future__ import annotations

import os
import subprocess
import sys

import pytest

from allocmark.machine import nvml as nvml_module
from allocmark.meters import memory
from allocmark.meters.memory import MemoryMeters
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.system.errors import NoGpuError
from tests.support import budgets
from tests.support.emulation import needs_emulator, needs_torch
from tests.support.nvml import MIB, FakeNvml, emulated_on, error, process


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml_module, "_uuid_from_driver", lambda device: None)
    monkeypatch.setattr(memory, "_driver", lambda: None)
    return FakeNvml(monkeypatch, ["NVIDIA H200"])


def test_a_process_without_a_context(nvml: FakeNvml) -> None:
    meters = MemoryMeters(0)
    assert meters.read() == {NVML_PROCESS: None, NVML_DEVICE: 100 * MIB, MEM_GET_INFO: None}
    assert "no context yet" in (meters.why(NVML_PROCESS) or "")
    assert "would create one" in (meters.why(MEM_GET_INFO) or "")
    assert meters.why(NVML_DEVICE) is None


def test_this_process_and_another_by_its_id(nvml: FakeNvml) -> None:
    running = [process(os.getpid(), 518 * MIB), process(7, 3 * MIB)]
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: running)
    meters = MemoryMeters(0)
    assert meters.read()[NVML_PROCESS] == 518 * MIB
    assert meters.read(7)[NVML_PROCESS] == 3 * MIB
    assert meters.read(8)[NVML_PROCESS] is None
    assert meters.neighbours() == {7: 3 * MIB}


def test_a_reason_is_that_of_the_last_reading(nvml: FakeNvml) -> None:
    meters = MemoryMeters(0)
    meters.read()
    assert meters.why(NVML_PROCESS)
    running = [process(os.getpid(), MIB)]
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: running)
    meters.read()
    assert meters.why(NVML_PROCESS) is None


def test_a_container_that_hides_the_memory(nvml: FakeNvml) -> None:
    running = [process(os.getpid(), None)]
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: running)
    meters = MemoryMeters(0)
    assert meters.read()[NVML_PROCESS] is None
    assert "without its memory" in (meters.why(NVML_PROCESS) or "")


def test_a_user_who_may_not_list_processes(nvml: FakeNvml) -> None:
    for kind in ("Compute", "Graphics"):
        nvml.says(f"nvmlDeviceGet{kind}RunningProcesses", error("NO_PERMISSION"))
    meters = MemoryMeters(0)
    assert meters.read()[NVML_PROCESS] is None
    assert meters.why(NVML_PROCESS) == "NVML does not list processes here"
    assert meters.neighbours() == {}


def test_a_card_that_falls_off_the_bus_is_a_reason(nvml: FakeNvml) -> None:
    meters = MemoryMeters(0)
    nvml.says("nvmlDeviceGetMemoryInfo", error("GPU_IS_LOST"))
    assert meters.read()[NVML_DEVICE] is None
    assert "fallen off the bus" in (meters.why(NVML_DEVICE) or "")


def test_no_nvml_is_one_sentence(nvml: FakeNvml) -> None:
    nvml.says("nvmlInit", error("LIBRARY_NOT_FOUND"))
    with pytest.raises(NoGpuError, match="no NVIDIA driver"):
        MemoryMeters(0)


def test_a_driver_that_is_not_loaded_is_not_loaded_for_this() -> None:
    code = "import allocmark.meters.memory as m; print(m._driver(), m.context_exists(0))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.stdout.split() == ["None", "False"]


_READ = """
import json, os, time
from allocmark.cuda import runtime
from allocmark.meters.memory import MemoryMeters, context_exists, used_bytes_in_context
MIB = 1 << 20
"""


@needs_emulator
def test_context_and_allocation_by_every_meter_to_the_byte() -> None:
    told = emulated_on(
        1,
        _READ
        + """
from allocmark.emulator.driver_profile import load
meters = MemoryMeters(0)
before, none = meters.read(), context_exists(0)
runtime.set_device(0)
context, some = meters.read(), context_exists(0)
runtime.malloc(64 * MIB)
tensor = meters.read()
numbers = load("h200").numbers
listed = numbers["context_bytes"]
whole = numbers["driver_init_bytes"] + listed + numbers["context_unlisted_bytes"]
print(json.dumps([before, context, tensor, none, some, listed, whole]))
""",
    )
    before, context, tensor, none, some, listed, whole = told
    assert (none, some) == (False, True)
    assert before == {NVML_PROCESS: None, NVML_DEVICE: 0, MEM_GET_INFO: None}
    assert context[NVML_PROCESS] == listed
    assert context[NVML_DEVICE] == context[MEM_GET_INFO] == whole
    for meter in METERS:
        assert tensor[meter] - context[meter] == 64 * MIB


@budgets.budget
@needs_emulator
def test_a_reading_creates_nothing_and_leaves_the_current_context_alone() -> None:
    told = emulated_on(
        2,
        _READ
        + """
import ctypes
from allocmark.emulator.driver_profile import load
from allocmark.cuda import driver as driver
driver.init()
meters = [MemoryMeters(0), MemoryMeters(1)]
none = [one.read()["mem_get_info"] for one in meters] + [context_exists(0), context_exists(1)]
driver.create_context(1)
current = ctypes.c_void_p()
driver.call("cuCtxGetCurrent", ctypes.byref(current))
before = current.value
read = [one.read() for one in meters]
driver.call("cuCtxGetCurrent", ctypes.byref(current))
begin = time.perf_counter()
for _ in range(100): meters[1].read()
print(json.dumps([none, [context_exists(0), context_exists(1)], before == current.value,
    [one["nvml_device"] for one in read], (time.perf_counter() - begin) / 100,
    load("h200").numbers["driver_init_bytes"]]))
""",
    )
    none, exist, same, device, seconds, init = told
    assert none == [None, None, False, False]
    assert exist == [False, True] and same
    assert device[0] == init and device[1] > 500 * MIB
    budgets.note("a reading of a second GPU's memory", seconds, 1e-3)


@needs_torch
def test_torch_initialised_is_not_yet_a_context() -> None:
    told = emulated_on(
        1,
        _READ
        + """
import torch
torch.cuda.init()
before = context_exists(0)
torch.zeros(1, device="cuda")
print(json.dumps([before, context_exists(0), used_bytes_in_context(0)]))
""",
    )
    assert told[:2] == [False, True]
    assert told[2] > 500 * MIB


@needs_emulator
@pytest.mark.parametrize("function", ["cuMemGetInfo_v2", "cuCtxPushCurrent_v2"])
def test_a_driver_that_fails_is_a_reason(function: str) -> None:
    told = emulated_on(
        1,
        _READ
        + """
runtime.set_device(0)
meters = MemoryMeters(0)
print(json.dumps([meters.read()["mem_get_info"], meters.why("mem_get_info")]))
""",
        ALLOCMARK_EMULATOR_FAULTS=f"{function}@1=error:719",
    )
    assert told == [None, "cuMemGetInfo failed here (719)"]
