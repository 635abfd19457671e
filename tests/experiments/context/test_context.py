from __future__ import annotations

import ctypes
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from allocmark.cuda import driver
from allocmark.experiments.catalog import experiment
from allocmark.experiments.context import cause, processes, stages
from allocmark.experiments.context.experiment import PARTS_OF, Context
from allocmark.experiments.context.subjects import (
    SUBJECTS,
    Driver,
    Runtime,
    Step,
    Subject,
    subject_of,
)
from allocmark.experiments.context.triggers import CALLS
from allocmark.experiments.core import experiment as core_experiment
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.recorder import CLOCK, Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.forked import in_fork
from allocmark.meters import memory
from allocmark.schema.device_meters import MEM_GET_INFO, METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.schema.metrics.context import LOADINGS, STAGES
from allocmark.system.errors import NotMeasurableError, UnknownNameError
from tests.support.emulation import needs_emulator, needs_torch
from tests.support.nvml import emulated_on

MIB = 1 << 20


class Sent:
    """A recorder's other end."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.recorder = Recorder(self)  # type: ignore[arg-type]

    def write(self, text: str) -> None:
        self.lines.append(json.loads(text))

    def flush(self) -> None:
        pass

    @property
    def figures(self) -> list[Figure]:
        return [Figure.from_json(line["data"]) for line in self.lines if line["kind"] == "figure"]

    @property
    def failures(self) -> list[Failure]:
        return [Failure(**line["data"]) for line in self.lines if line["kind"] == "failure"]

    def one(self, metric: str, **axes: Any) -> Figure:
        (found,) = [
            f for f in self.figures if f.metric == metric and axes.items() <= f.axes.items()
        ]
        return found


class ScriptedMeters:
    """Meters that read what a test sets."""

    def __init__(self) -> None:
        self.now: dict[str, int | None] = {NVML_PROCESS: None, NVML_DEVICE: 7, MEM_GET_INFO: None}
        self.others: dict[int, int | None] = {}

    def read(self, pid: int | None = None) -> dict[str, int | None]:
        return dict(self.now)

    def why(self, meter: str) -> str:
        return f"no {meter}"

    def neighbours(self) -> dict[int, int | None]:
        return dict(self.others)


class Scripted(Subject):
    name = "scripted"
    framework = "cuda"

    def __init__(self, made: dict[str, Step]) -> None:
        self._made = made

    def load(self) -> None:
        pass

    def steps(self, device: int) -> dict[str, Step]:
        return self._made


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> ScriptedMeters:
    made = ScriptedMeters()
    monkeypatch.setattr(memory, "_STILL_S", 0.0)
    return made


def run(
    subject: Subject, loading: str, meters: Any, sent: Sent, import_seconds: float = 0.0
) -> None:
    request = Request("context", subject.name, 1.0, {"module_loading": loading})
    stages.measure_stages(request, subject, meters, import_seconds, sent.recorder)


def sets(meters: ScriptedMeters, process: int, device: int, info: int) -> Callable[[], None]:
    def step() -> None:
        meters.now = {NVML_PROCESS: process, NVML_DEVICE: device, MEM_GET_INFO: info}

    return step


def test_each_stage_is_what_came_since_the_one_before(meters: ScriptedMeters) -> None:
    sent = Sent()
    made = Scripted(
        {
            "context": sets(meters, 518, 534, 540),
            "first tensor": sets(meters, 520, 536, 542),
            "first kernel": "has none",
        }
    )
    run(made, "LAZY", meters, sent, 1.5)
    assert sent.one("stage_seconds", stage="import").value == 1.5
    values = {
        (f.metric, f.axes["stage"], f.meter): f.value if f.reason is None else f.reason
        for f in sent.figures
        if f.metric != "stage_seconds"
    }
    assert values["stage_bytes", "import", NVML_DEVICE] == 0
    assert values["stage_bytes", "import", NVML_PROCESS] == f"no {NVML_PROCESS}"
    assert values["stage_bytes", "context", NVML_PROCESS] == 518
    assert values["stage_bytes", "context", NVML_DEVICE] == 527
    assert "would have created" in str(values["stage_bytes", "context", MEM_GET_INFO])
    assert values["stage_bytes", "first tensor", MEM_GET_INFO] == 2
    assert values["total_bytes", "first tensor", NVML_PROCESS] == 520
    assert values["total_bytes", "first tensor", NVML_DEVICE] == 529
    assert "no reading to start from" in str(values["total_bytes", "first tensor", MEM_GET_INFO])
    assert {values["stage_bytes", "first kernel", meter] for meter in METERS} == {"has none"}


def test_a_stage_that_fails_is_the_reason_of_all_after_it(meters: ScriptedMeters) -> None:
    def fail() -> None:
        raise NotMeasurableError("cuInit failed")

    sent, never = Sent(), sets(meters, 1, 1, 1)
    made = Scripted({"init": fail, "context": never, "first kernel": "has none"})
    run(made, "EAGER", meters, sent)
    assert sent.one("stage_seconds", stage="init").reason == "cuInit failed"
    reason = "not reached: init could not be done (cuInit failed)"
    assert sent.one("stage_seconds", stage="context").reason == reason
    assert sent.one("stage_seconds", stage="first kernel").reason == "has none"
    assert sent.failures == [Failure("init", "cuInit failed")]
    assert meters.now[NVML_DEVICE] == 7  # What came after it was not tried.


def test_a_neighbour_spoils_what_is_read_of_the_whole_gpu(meters: ScriptedMeters) -> None:
    def step() -> None:
        sets(meters, 518, 900, 900)()
        meters.others = {99: 300}

    sent = Sent()
    made = Scripted({"context": step, "first tensor": sets(meters, 520, 902, 902)})
    run(made, "LAZY", meters, sent)
    disturbed = sent.one("stage_bytes", stage="context", meter=NVML_DEVICE)
    assert "another process" in (disturbed.reason or "")
    assert sent.one("stage_bytes", stage="context", meter=NVML_PROCESS).value == 518
    assert sent.one("stage_bytes", stage="first tensor", meter=NVML_DEVICE).value == 2


def test_the_cells_are_those_that_are_sent(meters: ScriptedMeters) -> None:
    sent = Sent()
    run(Scripted(dict.fromkeys(STAGES[1:], "has none")), "LAZY", meters, sent)
    placed = {(f.metric, f.unit, f.meter, tuple(f.axes.items())) for f in sent.figures}
    expected = {
        (metric.name, metric.unit, meter, tuple(axes.items()))
        for metric, meter, axes in stages.cells("driver")
        if axes["module_loading"] == "LAZY"
    }
    assert placed == expected
    assert len(sent.figures) == len(expected)


@pytest.mark.parametrize("name", ["driver", "runtime"])
def test_every_subject_has_every_stage(name: str) -> None:
    assert tuple(subject_of(name).steps(0)) == STAGES[1:]


def test_an_unknown_subject_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="'mxnet'"):
        subject_of("mxnet")


def test_the_experiment_is_known_by_its_name() -> None:
    assert isinstance(experiment("context"), Context)


def test_full_takes_turns_and_ends_with_the_other_parts() -> None:
    requests = Context().requests("driver", PROFILES["full"], [])
    parts = [r.parameters["part"] for r in requests]
    assert parts == ["cold"] * 20 + ["triggers", "cause", "processes"]
    loadings = [r.environment["CUDA_MODULE_LOADING"] for r in requests[:20]]
    assert loadings == list(LOADINGS) * 10
    assert {r.environment["CUDA_CACHE_DISABLE"] for r in requests} == {"1"}


@needs_torch
def test_quick_has_enough_samples_for_an_interval() -> None:
    requests = Context().requests("torch", PROFILES["quick"], [])
    assert [r.environment["CUDA_MODULE_LOADING"] for r in requests] == ["LAZY"] * 6
    assert all("PREALLOCATE" not in name for r in requests for name in r.environment)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"jax": None}, "jax is not installed here"),
        ({"jax": "0.8.0", "jax cuda": None}, "without CUDA"),
    ],
)
def test_a_missing_framework_is_the_reason(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], reason: str
) -> None:
    monkeypatch.setattr(core_experiment, "installed", lambda framework: found)
    with pytest.raises(NotMeasurableError, match=reason):
        Context().requests("jax", PROFILES["quick"], [])


def test_jax_does_not_take_everything_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"jax": "0.8.0", "jax cuda": "13"}
    monkeypatch.setattr(core_experiment, "installed", lambda framework: found)
    for request in Context().requests("jax", PROFILES["quick"], []):
        assert request.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"


def outcome(
    part: str,
    loading: str = "LAZY",
    figures: Sequence[Figure] = (),
    failures: Sequence[Failure] = (),
    subject: str = "driver",
) -> ChildOutcome:
    parameters = {"part": part, "module_loading": loading, "profile": "full"}
    return ChildOutcome(Request("context", subject, 1.0, parameters), 0.1, figures, (), failures)


def reading(value: float | None, reason: str | None = None) -> Figure:
    axes = {"stage": "context", "module_loading": "LAZY"}
    return Figure("stage_seconds", "s", "time", CLOCK, axes, value, reason=reason)


def test_the_readings_of_all_processes_become_one_figure() -> None:
    outcomes = [outcome("cold", figures=[reading(n / 10)]) for n in (3, 1, 2)]
    outcomes.append(outcome("cold", figures=[reading(None, "failed once")]))
    (joined,) = [f for f in Context().combine(outcomes) if f.value is not None]
    assert (joined.value, joined.samples) == (0.2, [0.3, 0.1, 0.2])


def test_a_reason_that_all_give_stays() -> None:
    outcomes = [outcome("cold", figures=[reading(None, "no way")]) for _ in range(3)]
    joined = Context().combine(outcomes)
    assert [f.reason for f in joined if f.axes == reading(1).axes and f.metric == "stage_seconds"]
    assert "no way" in {f.reason for f in joined}


def test_every_cell_that_nobody_reached_has_a_reason() -> None:
    crash = Failure("first kernel", "the process was ended by SIGSEGV")
    figures = Context().combine([outcome("cold", failures=[crash]), outcome("cause")])
    reasons = {
        (str(f.axes.get("module_loading", "")), "call" in f.axes, f.metric): f.reason
        for f in figures
    }
    assert reasons["LAZY", False, "stage_bytes"] == crash.reason
    assert "quick" in str(reasons["EAGER", False, "stage_bytes"])
    assert "quick" in str(reasons["", True, "context_created"])
    assert "ended before" in str(reasons["", False, "live_bytes"])
    expected = sum(len(list(part.cells("driver"))) for part in (stages, cause, processes))
    expected += len(CALLS["driver"])
    assert len(figures) == expected


def test_no_outcome_has_no_cells() -> None:
    assert Context().combine([]) == []


def test_parts_are_those_of_known_subjects() -> None:
    assert set(PARTS_OF) == set(SUBJECTS)
    assert {name for name, parts in PARTS_OF.items() if "triggers" in parts} == set(CALLS)


def test_a_fork_answers_with_plain_data() -> None:
    assert in_fork(lambda: {"pid": os.getpid()})["pid"] != os.getpid()
    assert len(in_fork(lambda: "x" * 300_000)) == 300_000  # More than a pipe holds.


def raise_(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda: raise_(ValueError("bad")), "ValueError: bad"),
        (lambda: raise_(NotMeasurableError("cannot")), "^cannot$"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "ended by SIGKILL"),
        (lambda: os._exit(3), "ended with exit code 3"),
    ],
)
def test_a_fork_that_fails_says_why(function: Callable[[], Any], reason: str) -> None:
    with pytest.raises(NotMeasurableError, match=reason):
        in_fork(function)


def test_a_fork_that_hangs_is_ended() -> None:
    with pytest.raises(NotMeasurableError, match="time limit"):
        in_fork(lambda: time.sleep(1e6), limit_s=0.2)


def test_a_driver_function_that_is_missing_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "library", lambda: ctypes.CDLL(None))
    with pytest.raises(NotMeasurableError, match="this driver has no cuNothing"):
        driver.call("cuNothing")


@pytest.mark.parametrize("with_calls", [False, True])
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_the_kernel_assembles_for_each_architecture(architecture: str, with_calls: bool) -> None:
    linker = _linker()
    text = driver.ptx((9, 0), with_calls=with_calls)
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 1)(f"-arch={architecture}".encode())
    ptx_input = 2
    assert linker.nvJitLinkCreate(ctypes.byref(handle), 1, options) == 0
    try:
        size = ctypes.c_size_t(len(text))
        assert linker.nvJitLinkAddData(handle, ptx_input, text, size, b"touch") == 0
        assert linker.nvJitLinkComplete(handle) == 0
    finally:
        linker.nvJitLinkDestroy(ctypes.byref(handle))


def _linker() -> ctypes.CDLL:
    metadata = pytest.importorskip("importlib.metadata")
    try:
        files = metadata.files("nvidia-nvjitlink") or []
    except metadata.PackageNotFoundError:
        pytest.skip("nvidia-nvjitlink is not installed: nothing here assembles PTX")
    for file in files:
        if Path(file).name.startswith("libnvJitLink.so"):
            return ctypes.CDLL(str(file.locate()))
    pytest.skip("nvidia-nvjitlink has no library here")


def test_an_old_gpu_gets_its_own_kernel() -> None:
    assert b".target sm_50" in driver.ptx((7, 0))
    assert b".target sm_75" in driver.ptx((7, 5))


_LAUNCH = """
import json
from dataclasses import replace
from allocmark.emulator.driver_profile import load
from allocmark.experiments.context.experiment import EXPERIMENT
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.launcher import launch_all
profile = load("h200").numbers

def measured(subject, *parts, cold=6):
    full = PROFILES["full"]
    requests = EXPERIMENT.requests(subject, full, [])
    chosen = [r for r in requests if r.parameters["part"] in parts]
    first = [r for r in chosen if r.parameters["part"] == "cold"][:cold]
    rest = [r for r in chosen if r.parameters["part"] != "cold"]
    outcomes = list(launch_all([*first, *rest]))
    failures = [[f.stage, f.reason] for o in outcomes for f in o.failures]
    return EXPERIMENT.combine(outcomes), failures

def value(figures, metric, **axes):
    (found,) = [f for f in figures if f.metric == metric and axes.items() <= f.axes.items()]
    return found.value if found.reason is None else found.reason
"""


@needs_emulator
@pytest.mark.parametrize("subject", [Driver.name, Runtime.name])
def test_the_context_is_the_profiles_by_every_meter(subject: str) -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + f"""
figures, failures = measured({subject!r}, "cold", cold=2)
stage = "first kernel" if {subject!r} == "driver" else "first memset"
read = {{
    loading: [
        [value(figures, "stage_bytes", stage="context", module_loading=loading, meter=m)
         for m in ("nvml_process", "nvml_device", "mem_get_info")],
        [value(figures, "stage_bytes", stage="first tensor", module_loading=loading, meter=m)
         for m in ("nvml_process", "nvml_device", "mem_get_info")],
        value(figures, "stage_seconds", stage=stage, module_loading=loading),
    ]
    for loading in ("LAZY", "EAGER")
}}
print(json.dumps([read, failures, profile["context_bytes"], profile["context_unlisted_bytes"]]))
""",
    )
    read, failures, listed, unlisted = told
    assert failures == []
    for loading in LOADINGS:
        context, tensor, seconds = read[loading]
        assert context[:2] == [listed, listed + unlisted]
        assert "would have created" in context[2]
        assert tensor == [2 * MIB] * 3
        assert seconds > 0


@needs_torch
def test_torch_pays_for_eager_loading() -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("torch", "cold", cold=2)
def read(loading, stage):
    return value(figures, "stage_bytes", stage=stage, module_loading=loading, meter="nvml_process")
stages = ("context", "first tensor", "first kernel", "first matrix product")
more = {s: read("EAGER", s) - read("LAZY", s) for s in stages}
total = value(figures, "total_bytes", stage="first matrix product", module_loading="LAZY",
    meter="nvml_process")
print(json.dumps([failures, more, total, sum(read("LAZY", s) for s in stages), profile]))
""",
    )
    failures, more, total, added, profile = told
    assert failures == []
    assert more["context"] == profile["context_eager_bytes"]
    assert more["first kernel"] == -profile["first_kernel_bytes"]
    blas = profile["first_blas_eager_bytes"] - profile["first_blas_bytes"]
    assert more["first matrix product"] == blas
    assert total == added


@needs_emulator
def test_calls_that_create_a_context_and_calls_that_do_not() -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("driver", "triggers")
more, failed = measured("runtime", "triggers")
read = {f.axes["call"]: [f.value, list(f.flags)] for f in figures + more
    if f.metric == "context_created"}
size = value(figures, "call_bytes", call="cuDevicePrimaryCtxRetain")
print(json.dumps([read, size, value(figures, "call_bytes", call="cuInit"), failures + failed,
    profile["context_bytes"] + profile["context_unlisted_bytes"], profile["driver_init_bytes"]]))
""",
    )
    read, retained, initialised, failures, context, init = told
    assert failures == []
    assert set(read) == {*CALLS["driver"], *CALLS["runtime"]}
    for call in ("NVML processes", "cuInit", "cuDeviceGetCount", "cudaGetDeviceCount"):
        assert read[call] == [0, []]
    for call in ("cuDevicePrimaryCtxRetain", "cudaMalloc", "cudaSetDevice"):
        assert read[call] == [1, []]
    assert read["cuMemAlloc"] == [0, ["call-failed"]]  # The driver API creates none by itself.
    assert (retained, initialised) == (init + context, init)


@needs_torch
def test_torch_asks_much_before_it_creates_a_context() -> None:
    read, failures = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("torch", "triggers")
read = {f.axes["call"]: f.value for f in figures if f.metric == "context_created"}
print(json.dumps([read, failures]))
""",
    )
    assert failures == []
    assert set(read) == set(CALLS["torch"])
    assert read["import torch"] == read["torch.cuda.is_available"] == 0
    assert read["torch.zeros on the GPU"] == read["torch.cuda.synchronize"] == 1


@needs_emulator
def test_live_allocations_cost_whole_pages() -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("driver", "cause")
read = {f"{f.axes['bytes']} {f.axes['count']} {f.meter}": f.value if f.reason is None else f.reason
    for f in figures if f.metric == "live_bytes"}
default = value(figures, "limited_context_bytes", limit="default", meter="nvml_process")
limits = [f.reason for f in figures if f.axes.get("limit") == "stack"]
print(json.dumps([read, default, limits, profile]))
""",
    )
    read, default, limits, profile = told
    assert default == profile["context_bytes"] + 2 * MIB
    assert all("cuCtxGetLimit" in reason for reason in limits)  # The emulated driver has none.
    for meter in METERS:
        assert read[f"512 100 {meter}"] == 2 * MIB
        assert read[f"512 100000 {meter}"] == 50 * MIB
        assert read[f"{2 * MIB} 1000 {meter}"] == 2000 * MIB
        assert "195.3 GiB do not fit" in read[f"{2 * MIB} 100000 {meter}"]


@needs_emulator
def test_eight_idle_processes_add_up() -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("driver", "processes")
read = {f"{f.metric} {f.axes['processes']} {f.meter}": f.value if f.reason is None else f.reason
    for f in figures if "processes" in f.axes}
samples = [len(f.samples) for f in figures
    if f.metric == "process_bytes" and f.axes["processes"] == 8]
print(json.dumps([read, failures, samples, profile]))
""",
    )
    read, failures, samples, profile = told
    listed = profile["context_bytes"]
    whole, init = listed + profile["context_unlisted_bytes"], profile["driver_init_bytes"]
    assert failures == []
    assert samples == [8, 8, 7]  # The first process sees the seven others.
    for count in (1, 2, 4, 8):
        assert read[f"processes_bytes {count} {NVML_PROCESS}"] == count * listed
        # The driver is initialised once a card: the first process pays, the others do not.
        assert read[f"processes_bytes {count} {NVML_DEVICE}"] == init + count * whole
    assert read[f"process_bytes 1 {NVML_DEVICE}"] == init + whole
    assert read[f"process_bytes 8 {NVML_DEVICE}"] == whole
    assert read[f"process_bytes 2 {MEM_GET_INFO}"] == whole
    assert "no other" in read[f"process_bytes 1 {MEM_GET_INFO}"]


@needs_emulator
def test_a_gpu_too_small_for_eight_says_how_far_it_came() -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("driver", "processes")
print(json.dumps([value(figures, "processes_bytes", processes=4, meter="nvml_device"),
    value(figures, "processes_bytes", processes=8, meter="nvml_device"), failures]))
""",
        memory="3GiB",
    )
    four, eight, failures = told
    assert four > 2000 * MIB
    assert "out of memory" in eight
    assert failures[0][0] == "6 processes"


@needs_emulator
@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ("cuDevicePrimaryCtxRetain@1=error:999", "cuDevicePrimaryCtxRetain failed"),
        ("cuDevicePrimaryCtxRetain@1=crash", "the process was ended by SIG"),
    ],
)
def test_a_driver_that_fails_leaves_reasons_and_what_was_read_before(
    rule: str, reason: str
) -> None:
    told = emulated_on(
        1,
        _LAUNCH
        + """
figures, failures = measured("driver", "cold", cold=2)
print(json.dumps([value(figures, "stage_bytes", stage="init", module_loading="LAZY",
    meter="nvml_device"), value(figures, "stage_bytes", stage="first tensor",
    module_loading="LAZY", meter="nvml_device"), failures, profile["driver_init_bytes"]]))
""",
        ALLOCMARK_EMULATOR_FAULTS=rule,
    )
    init, tensor, failures, expected = told
    assert init == expected
    assert reason in tensor
    assert failures[0][0] == "context"
