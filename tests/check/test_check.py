"""The health check on the emulated driver, with every kind of fault that it can inject."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from allocmark.check import judging, nvml_health
from allocmark.check.child import Answer
from allocmark.check.driver_part import ALLOCATIONS, sizes, windows
from allocmark.check.finding import Finding, exit_code
from allocmark.check.record import Expected, expected
from allocmark.machine.conditions import Conditions
from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure
from tests.support.emulation import needs_emulator, needs_torch
from tests.support.nvml import FakeNvml, emulated_on, error, process

MIB, GIB = 1 << 20, 1 << 30
STAGES = {
    "init": "cuInit@1",
    "context": "cuDevicePrimaryCtxRetain@1",
    "first alloc": "cuMemAlloc@1",
    "mid-way": "cuMemAlloc@40",
    "every alloc": "cuMemAlloc@1+",
    "write": "cuMemsetD32@20",
    "read": "cuMemcpyDtoH@20",
    "free": "cuMemFree@30",
    "memory": "cuMemGetInfo@10",
    "sync": "cuCtxSynchronize@5",
}
KINDS = {
    "out of memory": "error:2",
    "failed": "error:719",
    "uncorrectable ECC": "error:214",
    "lost": "lost",
    "crash": "crash",
}
TABLE = {
    f"{stage}, {kind}": f"{STAGES[stage]}={KINDS[kind]}"
    for stage in STAGES
    for kind in KINDS
    # Every kind in the middle and at the ends, the most common ones at every stage.
    if stage in ("context", "first alloc", "mid-way", "free") or kind in ("failed", "lost")
}
TABLE |= {
    "a call hangs": "cuMemAlloc@7=hang",
    "one slow call": "cuMemAlloc@9=delay:2200",
    "one slow release": "cuMemFree@9=delay:2200",
    "all slow": "cuMemAlloc@1+=delay:30",
    "a neighbour takes memory": f"cuMemAlloc@30=steal:{64 * MIB}",
}
"""Fault to the rule that injects it; each must be found without a framework."""
# The parent's NVML sees none of these rules, which only its children read.
EACH = """
import json, os
from allocmark.check import checking
from allocmark.check.finding import exit_code
checking.installed = lambda framework: {"torch": None}
checking.DRIVER_LIMIT_S = 6.0
found = {}
for name, rule in json.loads(os.environ["TABLE"]).items():
    os.environ["ALLOCMARK_EMULATOR_FAULTS"] = rule
    findings = checking.check([])
    faults = [f.reason for f in findings if f.level == "fault"]
    found[name] = [exit_code(findings), faults]
print(json.dumps(found))
"""


@needs_emulator
def test_every_kind_of_fault_is_found() -> None:
    found = emulated_on(1, EACH, TABLE=json.dumps({"healthy": "", **TABLE, "again": ""}))
    assert found.pop("healthy") == [0, []]
    assert found.pop("again") == [0, []]
    slow = found.pop("all slow")  # Only the record tells that 30 ms are many: below.
    assert slow == [0, []]
    assert {name for name, (code, faults) in found.items() if code != 1 or not faults} == set()
    assert found["a call hangs"][1][0].startswith("it did not end within 6 s at cuMemAlloc of ")
    assert found["first alloc, crash"][1][0].startswith("its process ended by SIGABRT")
    assert "(214)" in found["mid-way, uncorrectable ECC"][1][0]
    assert any("did not come back" in reason for reason in found["a neighbour takes memory"][1])


NVML = """
import json
from allocmark.check import checking
from allocmark.check.finding import exit_code
checking.installed = lambda framework: {"torch": None}
findings = checking.check([])
print(json.dumps([exit_code(findings), [f.reason for f in findings if f.level != "note"]]))
"""


@needs_emulator
@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("nvmlInit@1+=error:9", 2),  # The kernel module is not loaded.
        ("nvmlDeviceGetCount@1+=error:999", 2),
        ("nvmlDeviceGetMemoryInfo@1+=error:15", 1),  # The card fell off the bus.
        ("nvmlDeviceGetMemoryInfo@3+=error:15", 1),
    ],
)
def test_nvml_that_fails_is_told(rule: str, code: int) -> None:
    found, reasons = emulated_on(1, NVML, ALLOCMARK_EMULATOR_FAULTS=rule)
    assert found == code, reasons


PEERS = """
import json, os
from allocmark.check import checking
checking.installed = lambda framework: {"torch": None}
found = []
for rule in ("", "cuCtxEnablePeerAccess@2=error:217", "cuMemcpyPeer@1=lost"):
    os.environ["ALLOCMARK_EMULATOR_FAULTS"] = rule
    findings = checking.check([])
    found.append([[f.gpu, f.check, f.reason] for f in findings if f.level == "fault"])
print(json.dumps(found))
"""


@needs_emulator
def test_peer_access_is_tried_among_all_gpus() -> None:
    fine, refused, lost = emulated_on(3, PEERS)
    assert fine == []
    assert [found[:2] for found in refused] == [[None, "peer access"]]
    assert refused[0][2].endswith("(217) at peer access of GPU 0 to GPU 2")
    assert [found[:2] for found in lost] == [[None, "peer access"]]


TORCH = """
import json, os
from allocmark.check import checking
checking.TORCH_LIMIT_S = 60.0  # Torch is slow to import on a busy machine.
found = []
for rule in ("", "cudaMalloc@2+=error:2", "cudaFree@3=lost"):
    os.environ["ALLOCMARK_EMULATOR_FAULTS"] = rule
    findings = list(checking._torch(0))
    found += [[f.level, f.reason] for f in findings]
print(json.dumps(found))
"""


@needs_emulator
@needs_torch
def test_torchs_allocator_is_tried_where_it_is_installed() -> None:
    fine, full, lost = emulated_on(1, TORCH)
    assert fine[0] == "fine" and "allocated 1355874816 bytes of" in fine[1]
    assert full[0] == "fault" and "OutOfMemoryError" in full[1] and "at torch.empty of" in full[1]
    assert lost[0] == "fault"


@needs_emulator
def test_a_neighbour_makes_it_unclear_and_the_command_says_what_it_found(tmp_path: Path) -> None:
    code = """
import json, subprocess, sys
hold = "from allocmark.cuda import driver as d; d.init(); d.create_context(0); "
hold += "print(1, flush=True); input()"
command = [sys.executable, "-m", "allocmark", "check", "--format", "json"]
with subprocess.Popen([sys.executable, "-c", hold], stdin=-1, stdout=-1) as holder:
    holder.stdout.readline()
    done = subprocess.run(command, capture_output=True, text=True)
    quiet = subprocess.run(command[:4], capture_output=True, text=True)
    print(json.dumps([done.returncode, json.loads(done.stdout), quiet.stdout, holder.pid]))
    holder.stdin.close()
"""
    status, told, quiet, pid = emulated_on(1, code, ALLOCMARK_PYTHON_TORCH="/bin/false")
    assert status == told["exit_code"] == 3
    reasons = [f["reason"] for f in told["findings"] if f["level"] == "unclear"]
    assert reasons == [f"process {pid} holds 518 MiB: end it"]
    assert quiet == f"unclear: GPU 0: processes: {reasons[0]}\n"


def _readings(**changes: Any) -> dict[str, Any]:
    """Return the readings of a healthy card of 8 GiB."""
    one = {"alloc_ns": 100_000, "free_ns": 50_000, "wrong_windows": 0}
    pages = [-(-size // (2 * MIB)) * 2 * MIB for size in sizes(8 * GIB)]
    blocks = [
        {"bytes": size, "taken_bytes": taken, **one}
        for size, taken in zip(sizes(8 * GIB), pages, strict=True)
    ]
    return {
        "emulated": False,
        "before": {"nvml_process": None, "nvml_device": GIB},
        "after": {"nvml_process": 518 * MIB, "nvml_device": GIB + 530 * MIB},
        "context_seconds": 0.2,
        "nvml_total_bytes": 9 * GIB,
        "free_before_bytes": 8 * GIB,
        "free_after_bytes": 8 * GIB,
        "allocations": blocks,
        **changes,
    }


KNOWN = Expected(
    {"nvml_process": 518 * MIB, "nvml_device": 530 * MIB}, 0.2, 9 * GIB, ((512, 1e5), (GIB, 2e5))
)


def _faults(readings: dict[str, Any], known: Expected = KNOWN, alone: bool = True) -> list[str]:
    found = judging.driver_findings(0, readings, known, alone)
    return [finding.check for finding in found if finding.level == "fault"]


def test_bytes_are_held_against_the_record_to_the_byte() -> None:
    assert _faults(_readings()) == []
    held = {"nvml_process": 518 * MIB + 1, "nvml_device": GIB}
    assert _faults(_readings(after=held)) == ["context"]
    hidden = {"nvml_process": None, "nvml_device": GIB + 532 * MIB}
    assert _faults(_readings(after=hidden)) == ["context"]
    assert _faults(_readings(after=hidden), alone=False) == []  # A neighbour's bytes are in it.
    assert _faults(_readings(nvml_total_bytes=9 * GIB - 1)) == ["capacity"]
    assert _faults(_readings(free_after_bytes=8 * GIB - 2 * MIB)) == []  # Small blocks' page.
    assert _faults(_readings(free_after_bytes=8 * GIB - 4 * MIB)) == ["release"]
    assert _faults(_readings(after=held, nvml_total_bytes=1), Expected()) == []


def test_a_word_that_reads_back_wrong_is_a_fault() -> None:
    readings = _readings()
    readings["allocations"][50]["wrong_windows"] = 1
    assert _faults(readings) == ["pattern"]


def test_times_are_ratios_to_the_record_with_wide_limits() -> None:
    readings = _readings()
    for block in readings["allocations"]:
        block["alloc_ns"] *= 9
    assert _faults(readings) == []
    for block in readings["allocations"]:
        block["alloc_ns"] *= 3
    assert _faults(readings) == ["allocation time"]
    readings["allocations"][3]["free_ns"] = 2_100_000_000
    assert _faults(readings, Expected()) == ["slowest call"]
    assert _faults(_readings(context_seconds=2.1)) == ["context time"]


def test_an_allocation_that_takes_other_than_whole_pages_is_a_fault() -> None:
    readings = _readings()
    readings["allocations"][60]["taken_bytes"] += 2 * MIB
    assert _faults(readings) == ["allocations"]
    assert _faults(readings, alone=False) == []


def test_the_record_is_of_that_model_and_driver(tmp_path: Path) -> None:
    def write(name: str, driver: str, started: str, *figures: Figure) -> None:
        probe, subject = name.split(".")
        stack = {"gpu": "NVIDIA H200", "driver": driver, "total_bytes": 9 * GIB}
        document = Document(
            probe, subject, "full", "run", started, 1.0, "", "1", False, stack, {}, figures
        )
        path = documents.path_of(tmp_path, "h200", f"s{driver}", "full", probe, subject)
        documents.write(path, document)

    def total(value: int) -> Figure:
        axes = {"stage": "context", "module_loading": "LAZY", "meter": "nvml_process"}
        return Figure("total_bytes", "bytes", "sampled", "nvml_process", axes, value)

    def call(size: int, value: float) -> Figure:
        axes: dict[str, Any] = {"path": "miss", "call": "alloc", "level": "allocator"}
        axes |= {"wait": "host", "bytes": size}
        return Figure("call_ns", "ns", "time", "native loop", axes, value)

    write("context.driver", "580", "2026-01-01T00:00:00+00:00", total(518 * MIB))
    write("context.driver", "590", "2026-02-01T00:00:00+00:00", total(520 * MIB))
    write(
        "latency.cuda-malloc", "580", "2026-01-01T00:00:00+00:00", call(100, 10), call(10_000, 1000)
    )
    found = expected([tmp_path], "NVIDIA H200", "580", emulated=False)
    assert found.context_bytes == {"nvml_process": 518 * MIB}
    assert found.total_bytes == 9 * GIB
    between = found.alloc_ns_of(1000)
    assert between == pytest.approx(100)
    assert (found.alloc_ns_of(1), found.alloc_ns_of(10**6)) == pytest.approx((10, 1000))
    for gpu, driver, emulated in (
        ("NVIDIA H100", "580", False),
        ("NVIDIA H200", "570", False),
        ("NVIDIA H200", "580", True),
    ):
        assert expected([tmp_path], gpu, driver, emulated=emulated) == Expected()


@pytest.mark.parametrize(
    ("function", "answer", "check"),
    [
        ("nvmlDeviceGetTotalEccErrors", lambda handle, kind, counter: 1 - counter, "ECC"),
        ("nvmlDeviceGetRemappedRows", lambda handle: [0, 1, 1, 0], "remapped rows"),
        ("nvmlDeviceGetRemappedRows", lambda handle: [0, 1, 0, 1], "remapped rows"),
        ("nvmlDeviceGetRetiredPagesPendingStatus", lambda handle: 1, "retired pages"),
    ],
)
def test_memory_errors_are_faults(
    monkeypatch: pytest.MonkeyPatch, function: str, answer: Any, check: str
) -> None:
    import pynvml

    nvml = FakeNvml(monkeypatch, ["NVIDIA H200"])
    nvml.says("nvmlDeviceGetTotalEccErrors", lambda handle, kind, counter: 0)
    nvml.says("nvmlDeviceGetRemappedRows", lambda handle: [0, 3, 0, 0])
    nvml.says("nvmlDeviceGetRetiredPagesPendingStatus", lambda handle: 0)
    assert {f.level for f in nvml_health.errors(pynvml, 0, 0)} == {"fine"}
    nvml.says(function, answer)
    found = [f.check for f in nvml_health.errors(pynvml, 0, 0) if f.level == "fault"]
    assert found == [check]
    for name in ("TotalEccErrors", "RemappedRows", "RetiredPagesPendingStatus"):
        nvml.says(f"nvmlDeviceGet{name}", error("NOT_SUPPORTED"))
    assert {f.level for f in nvml_health.errors(pynvml, 0, 0)} == {"note"}


def test_who_holds_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import pynvml

    nvml = FakeNvml(monkeypatch, ["NVIDIA H200"])
    missing = 1 << 22  # Above the largest process id.

    def levels(used: int, listed: Sequence[SimpleNamespace], container: bool) -> dict[str, str]:
        nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: listed)
        conditions = Conditions(device_used_bytes=used, container=container)
        found = nvml_health.processes(pynvml, 0, 0, conditions, reserve_bytes=GIB)
        return {f.check: f.level for f in found}

    assert levels(GIB, [], False) == {"processes": "fine", "unlisted memory": "fine"}
    assert levels(2 * GIB, [], False)["unlisted memory"] == "fault"
    assert levels(2 * GIB, [], True)["unlisted memory"] == "unclear"
    assert levels(2 * GIB, [process(1, GIB)], False) == {
        "processes": "unclear",
        "unlisted memory": "fine",
    }
    assert levels(2 * GIB, [process(missing, GIB)], False)["processes"] == "fault"
    assert levels(2 * GIB, [process(missing, GIB)], True)["processes"] == "unclear"


def test_what_is_allocated_and_what_is_read_back() -> None:
    every = sizes(126 * GIB)
    assert len(every) == ALLOCATIONS == len(set(every)) and every[0] == 512
    assert every[-1] == pytest.approx(0.9 * 126 * GIB, rel=1e-6)
    assert list(windows(5 * MIB)) == [(0, 5 * MIB)]
    read = list(windows(every[-1]))
    assert read[0] == (0, MIB) and sum(read[-1]) == pytest.approx(every[-1], abs=4)
    assert all(begin % 4 == 0 for begin, _ in read)


def test_a_cold_disk_is_no_fault_and_the_worst_decides() -> None:
    slow = Answer(1, "the import of torch", {}, "it did not end within 8 s", timed_out=True)
    assert judging.broken(0, "torch", slow).level == "note"
    levels = ("fine", "note", "unclear", "unasked", "fault")
    findings = [Finding(0, "check", level, "reason") for level in levels]  # type: ignore[arg-type]
    assert [exit_code(findings[:count]) for count in range(6)] == [0, 0, 0, 3, 2, 1]
