"""Faults on demand: the nth call fails, waits, hangs, crashes, or a neighbour takes memory."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from tests.support.emulated_child import PRELUDE, emulated, environment, launcher, run

pytestmark = pytest.mark.fault


def faults(rules: str) -> dict[str, str]:
    return {"ALLOCMARK_EMULATOR_FAULTS": rules}


CODES = "report([malloc(MIB)[0] for _ in range(5)])"


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        ("cudaMalloc@2=error:2", [0, 2, 0, 0, 0]),
        ("cudaMalloc@3+=error:46", [0, 0, 46, 46, 46]),
        ("cudaMalloc@2=error:2;cudaMalloc@4=error:1", [0, 2, 0, 1, 0]),
        ("cudaMalloc@2=lost", [0, 719, 719, 719, 719]),
        ("cudaMalloc@4=lost:46", [0, 0, 0, 46, 46]),
        ("*@3=error:999", [0, 0, 999, 0, 0]),
        ("cudaFree@1=error:2", [0, 0, 0, 0, 0]),
    ],
)
def test_the_nth_call_fails(rules: str, codes: list[int]) -> None:
    assert emulated(CODES, variables=faults(rules)) == codes


def test_a_lost_device_fails_every_call_and_nvml() -> None:
    code = """
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
malloc(MIB)
try:
    pynvml.nvmlDeviceGetMemoryInfo(card)
except pynvml.NVMLError as error:
    report([error.value, free(None), runtime("cudaDeviceSynchronize")])
"""
    assert emulated(code, variables=faults("cudaMalloc@1=lost")) == [15, 719, 719]


def test_driver_names_match_with_or_without_their_version() -> None:
    code = """
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)
report([driver.cuDeviceTotalMem_v2(ctypes.byref(ctypes.c_size_t()), 0) for _ in range(2)])
"""
    assert emulated(code, variables=faults("cuDeviceTotalMem@2=error:3")) == [0, 3]


def test_a_call_takes_its_time() -> None:
    code = """
import time
times = []
for _ in range(3):
    began = time.perf_counter(); malloc(MIB); times.append(time.perf_counter() - began)
report(times)
"""
    first, second, third = emulated(code, variables=faults("cudaMalloc@2=delay:300"))
    assert second > 0.3
    assert max(first, third) < second


def test_a_neighbour_takes_memory() -> None:
    code = """
before = free_bytes()
malloc(2 * MIB)
between = free_bytes()
malloc(2 * MIB)
report([(before - between) // MIB, (between - free_bytes()) // MIB, malloc(2 * GIB)[0]])
"""
    rules = faults(f"cudaMalloc@2=steal:{3 << 30}")
    assert emulated(code, variables=rules) == [2, 3 * 1024 + 2, 2]


def test_a_call_crashes() -> None:
    done = run(CODES, variables=faults("cudaMalloc@2=crash"))
    assert done.returncode == 128 + signal.SIGABRT
    assert "cudaMalloc crashes on demand" in done.stderr


def test_a_call_hangs_until_killed() -> None:
    code = 'malloc(MIB); report("one"); malloc(MIB); report("two")'
    with subprocess.Popen(
        [*launcher(), sys.executable, "-c", PRELUDE + code],
        env=environment(faults("cudaMalloc@2=hang")),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == '"one"\n'
        time.sleep(0.5)
        assert process.poll() is None
        process.terminate()
        assert process.stdout.read() == ""
        assert process.wait(timeout=10) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    "rule",
    ["cudaMalloc=error", "cudaMalloc@x=error", "cudaMalloc@1=eror:2", "cudaMalloc@1=error:x"],
)
def test_a_rule_that_is_not_understood_ends_the_program(rule: str) -> None:
    done = run('report("began"); malloc(MIB); report("ended")', variables=faults(rule))
    assert (done.returncode, done.stdout) == (2, '"began"\n')
    assert f"the fault rule '{rule}' is not understood: write FUNCTION@N=ACTION" in done.stderr
