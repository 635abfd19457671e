"""Several GPUs: bytes on each of eight emulated ones, stray contexts, what becomes of faults."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from allocmark.experiments.catalog import experiment
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.request import ChildOutcome
from allocmark.experiments.multi_gpu import devices as all_devices
from allocmark.experiments.multi_gpu import experiment as several
from allocmark.experiments.multi_gpu.devices import Devices
from allocmark.experiments.multi_gpu.modes import Mode
from allocmark.experiments.multi_gpu.stray_contexts import PROGRAMS
from allocmark.machine import nvml as nvml_module
from allocmark.meters import memory
from allocmark.schema.device_meters import MEM_GET_INFO, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.schema.metrics.multi_gpu import CREATED, EACH_TENSOR, FIRST_TENSOR, ONE_GPU_VISIBLE
from allocmark.system.errors import NoGpuError, NotMeasurableError
from allocmark.system.units import MIB
from tests.support.emulation import needs_emulator, needs_tensorflow, needs_torch
from tests.support.nvml import FakeNvml, emulated_on, process

GPUS = 8
UUIDS = [f"GPU-{n}{n}000000-0000-0000-0000-000000000000" for n in range(2)]
FULL, QUICK = PROFILES["full"], PROFILES["quick"]

RUN = """
import json, sys
from dataclasses import replace
from allocmark.emulator.driver_profile import load
from allocmark.experiments.core.launcher import launch_all
from allocmark.experiments.multi_gpu.experiment import EXPERIMENT, visible_uuids
requests = []
for subject, asked, rules in json.loads({asked!r}):
    request = EXPERIMENT.request(subject, asked | {{"uuids": visible_uuids()}})
    faults = {{"ALLOCMARK_EMULATOR_FAULTS": rules}} if rules else {{}}
    requests.append(replace(request, environment={{**request.environment, **faults}}))
told = []
for outcome in launch_all(requests):
    figures = [figure.to_json() for figure in EXPERIMENT.combine([outcome])]
    told.append([figures, [f"{{f.stage}}: {{f.reason}}" for f in outcome.failures]])
print(json.dumps([told, load("h200").numbers]))
"""


class Told:
    """What one process reported on so many GPUs."""

    def __init__(self, figures: Any, failures: list[str], profile: Mapping[str, int]) -> None:
        self.figures = [Figure.from_json(figure) for figure in figures]
        self.failures = failures
        self.listed_bytes = profile["context_bytes"]
        self.context_bytes = self.listed_bytes + profile["context_unlisted_bytes"]
        self.init_bytes = profile["driver_init_bytes"]

    def one(self, metric: str, **axes: Any) -> Any:
        """Return a value, or the reason."""
        (found,) = [f for f in self.figures if f.metric == metric and dict(f.axes) == axes]
        return found.reason if found.value is None else found.value

    def row(self, metric: str, **axes: Any) -> list[Any]:
        """Return what each GPU shows."""
        return [self.one(metric, gpu=gpu, **axes) for gpu in range(GPUS)]

    def values(self, metric: str) -> dict[tuple[Any, ...], Any]:
        """Return all of a metric, by its axes in the order of their names."""
        return {
            tuple(value for _, value in sorted(f.axes.items())): f.reason or f.value
            for f in self.figures
            if f.metric == metric
        }


def emulated(*asked: tuple[str, dict[str, Any], str]) -> list[Told]:
    """Run parts of subjects on eight emulated GPUs, each with the faults that it is to meet."""
    told, profile = emulated_on(GPUS, RUN.format(asked=json.dumps(asked)), "4GiB")
    return [Told(figures, failures, profile) for figures, failures in told]


def only(gpu: int, value: int) -> list[int]:
    return [value if one == gpu else 0 for one in range(GPUS)]


# The parent: what it asks of whom.


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "visible_uuids", lambda: UUIDS)
    monkeypatch.setattr(several, "why_absent", lambda framework: None)


@pytest.mark.usefixtures("two")
def test_two_gpus_are_enough_for_every_subject() -> None:
    assert experiment("several_gpus") is several.EXPERIMENT
    subjects = several.EXPERIMENT.subjects([], QUICK)
    assert subjects == [
        *("tf-greedy", "tf-growth", "tf-limit", "tf-async"),
        *("torch", "torch-expandable", "runtime"),
    ]
    needs = {several.EXPERIMENT.framework(subject, []) for subject in subjects[:4]}
    assert needs == {"tensorflow"}
    assert [several.EXPERIMENT.framework(s, []) for s in subjects[4:]] == ["torch", "torch", "cuda"]


@pytest.mark.usefixtures("two")
def test_each_program_is_asked_with_what_it_may_see() -> None:
    visible = [
        (request.parameters["visible"], request.environment.get("CUDA_VISIBLE_DEVICES"))
        for request in several.EXPERIMENT.requests("tf-growth", FULL, [])
    ]
    assert visible == [("one", UUIDS[0]), ("all", None)] * 3
    assert len(several.EXPERIMENT.requests("tf-growth", QUICK, [])) == 2
    torch = several.EXPERIMENT.requests("torch", FULL, [])
    assert [r.parameters["part"] for r in torch] == ["touched", "strays", "remedy", "copies"]
    hidden = [r.environment.get("CUDA_VISIBLE_DEVICES") for r in torch]
    assert hidden == [None, None, UUIDS[1], None]
    (expandable,) = several.EXPERIMENT.requests("torch-expandable", FULL, [])
    assert expandable.environment == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    assert several.EXPERIMENT.requests("tf-async", QUICK, [])[0].environment["TF_GPU_ALLOCATOR"]


def test_a_framework_that_is_missing_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "visible_uuids", lambda: UUIDS)
    monkeypatch.setattr(several, "why_absent", lambda framework: f"{framework} is not here")
    with pytest.raises(NotMeasurableError, match="tensorflow is not here"):
        several.EXPERIMENT.requests("tf-growth", QUICK, [])
    assert several.EXPERIMENT.requests("runtime", QUICK, [])


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        (None, "this machine has one GPU"),
        ("3", "CUDA_VISIBLE_DEVICES=3 leaves one GPU"),
    ],
)
def test_one_gpu_is_one_document_of_reasons_and_no_process(
    setting: str | None, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if setting:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", setting)
    monkeypatch.setattr(several, "visible_uuids", lambda: UUIDS[:1])
    assert several.EXPERIMENT.subjects([], FULL) == ["runtime"]
    assert several.EXPERIMENT.requests("runtime", FULL, []) == []
    figures = several.EXPERIMENT.combine([])
    assert {figure.reason for figure in figures} == {reason}
    assert {figure.metric for figure in figures} == {
        *("can_access", "peer_bytes", "peer_context", "peer_listed", "malloc_ns", "free_ns"),
    }


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise NoGpuError("no driver")

    monkeypatch.setattr(all_devices, "visible_devices", fail)
    assert all_devices.visible_uuids() == []


@pytest.mark.usefixtures("two")
def test_like_processes_are_joined_and_a_crash_leaves_its_reason() -> None:
    requests = several.EXPERIMENT.requests("tf-growth", FULL, [])
    place = {"visible": "one"}
    outcomes = [
        ChildOutcome(request, 1.0, [Figure("device_seconds", "s", "time", "clock", place, n)])
        if request.parameters["visible"] == "one"
        else ChildOutcome(request, 1.0, failures=[Failure("start", "killed")])
        for n, request in enumerate(requests)
    ]
    figures = several.EXPERIMENT.combine(outcomes)
    (seconds,) = [f for f in figures if f.metric == "device_seconds" and f.axes == place]
    assert seconds.value == 2 and seconds.samples == [0, 2, 4]
    cells = [(f.metric, tuple(sorted(f.axes.items()))) for f in figures]
    assert len(cells) == len(set(cells))
    assert {f.reason for f in figures if f.axes["visible"] == "all"} == {"killed"}


# The meters of all cards.


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml_module, "_uuid_from_driver", lambda device: None)
    monkeypatch.setattr(memory, "_driver", lambda: None)
    return FakeNvml(monkeypatch, ["NVIDIA H200"] * 2)


def holding(monkeypatch: pytest.MonkeyPatch, *ordinals: int) -> None:
    """Let this process hold the contexts of these GPUs."""
    monkeypatch.setattr(all_devices, "context_exists", lambda ordinal: ordinal in ordinals)


def running(nvml: FakeNvml, *lists: list[Any]) -> None:
    nvml.says("nvmlDeviceGetComputeRunningProcesses", lambda handle: lists[handle])


def test_a_hidden_card_is_read_all_the_same(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", UUIDS[1])
    assert all_devices.visible_uuids() == UUIDS[1:]
    devices = Devices(UUIDS, [1])
    running(nvml, [], [process(os.getpid(), 518 * MIB)])
    holding(monkeypatch, 0)  # The second card is the first one that CUDA sees.
    first, second = devices.read()
    assert (first.context, first.listed) == (0, 0)
    assert (second.context, second.listed) == (1, 1)
    assert first.added[NVML_PROCESS] == 0 and second.added[NVML_PROCESS] == 518 * MIB
    assert first.added[NVML_DEVICE] == 0
    assert first.added[MEM_GET_INFO] == "CUDA does not see this GPU in this process"


def test_a_container_that_hides_process_ids(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = Devices(UUIDS, [0, 1])
    holding(monkeypatch, 0)
    first, second = devices.read()
    assert first.context == 1 and second.context == 0
    assert "hides its process id" in str(first.listed)
    assert "hides its process id" in str(second.listed)
    assert "hides its process id" in str(first.added[NVML_PROCESS])
    assert second.added[NVML_PROCESS] == 0


def test_a_neighbour_that_comes_spoils_the_whole_gpus_figure(
    nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices = Devices(UUIDS, [0, 1])
    holding(monkeypatch, 0)
    running(nvml, [process(os.getpid(), MIB), process(7, MIB)], [])
    first, second = devices.read()
    assert first.added[NVML_PROCESS] == MIB
    assert "another process on this GPU" in str(first.added[NVML_DEVICE])
    assert second.added[NVML_DEVICE] == 0


def test_less_than_before_is_no_figure(nvml: FakeNvml) -> None:
    devices = Devices(UUIDS, [0, 1])
    said = nvml_module.library().nvmlDeviceGetMemoryInfo(0)
    said.used -= MIB
    nvml.says("nvmlDeviceGetMemoryInfo", lambda handle, version=None: said)
    assert "gave memory back" in str(devices.read()[0].added[NVML_DEVICE])


def test_a_user_who_may_not_list_processes(nvml: FakeNvml) -> None:
    import pynvml

    def fail(handle: int) -> Any:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)

    for kind in ("Compute", "Graphics"):
        nvml.says(f"nvmlDeviceGet{kind}RunningProcesses", fail)
    assert [one.listed for one in Devices(UUIDS, [0, 1]).read()] == [
        "NVML does not list processes here"
    ] * 2


# Eight emulated GPUs.

PEERS: dict[str, Any] = {"part": "peers", "samples": 6}
COPIES: dict[str, Any] = {"part": "copies", "samples": 6}


@cache
def torch_told() -> list[Told]:
    return emulated(
        ("runtime", PEERS, ""),
        ("torch", {"part": "touched"}, ""),
        ("torch", {"part": "strays"}, ""),
        ("torch", {"part": "remedy"}, ""),
        ("torch", COPIES, ""),
        ("torch-expandable", COPIES, ""),
        ("runtime", PEERS, "cudaDeviceEnablePeerAccess@3+=error:217"),
        ("runtime", PEERS, "cudaMalloc@1=crash"),
    )


@needs_emulator
@needs_torch
def test_peer_access_adds_a_context_where_there_was_none() -> None:
    told, *_ = torch_told()
    assert not told.failures
    for peers in range(GPUS):
        place: dict[str, Any] = {"contexts": "of GPU 0", "peers": peers}
        holds = [int(gpu <= peers) for gpu in range(GPUS)]
        assert told.row("peer_context", **place) == holds
        assert told.row("peer_listed", **place) == holds
        added = [told.context_bytes if 0 < gpu <= peers else 0 for gpu in range(GPUS)]
        assert told.row("peer_bytes", **place, meter=NVML_DEVICE) == added
        place["contexts"] = "of all GPUs"
        for meter in (NVML_PROCESS, NVML_DEVICE, MEM_GET_INFO):
            assert told.row("peer_bytes", **place, meter=meter) == [0] * GPUS
    reach = told.values("can_access")
    assert len(reach) == GPUS * (GPUS - 1) and set(reach.values()) == {1}


@needs_emulator
@needs_torch
def test_malloc_is_timed_for_every_number_of_peers() -> None:
    told, *_ = torch_told()
    for metric in ("malloc_ns", "free_ns"):
        found = [f for f in told.figures if f.metric == metric]
        assert {f.axes["peers"] for f in found} == set(range(GPUS))
        assert {f.axes["bytes"] for f in found} == {MIB, 64 * MIB, 1024 * MIB}
        assert all(len(f.samples) == 6 and f.interval and min(f.samples) > 0 for f in found)


@needs_emulator
@needs_torch
def test_gpus_that_cannot_be_reached_leave_what_was_read_before() -> None:
    told = torch_told()[6]
    why = "GPU 0 cannot reach the memory of GPU 3"
    place: dict[str, Any] = {"contexts": "of GPU 0", "meter": NVML_DEVICE}
    assert told.one("peer_bytes", gpu=2, peers=2, **place) == told.context_bytes
    assert told.row("peer_bytes", peers=3, **place) == [why] * GPUS
    assert told.row("peer_bytes", peers=7, **place) == [why] * GPUS
    # Both ways are two calls for each peer.
    assert isinstance(told.one("malloc_ns", peers=1, bytes=MIB), float)
    assert told.one("malloc_ns", peers=2, bytes=MIB) == why.replace("3", "2")


@needs_emulator
@needs_torch
def test_each_gpu_that_torch_touches_gets_a_context() -> None:
    told = torch_told()[1]
    segment = 2 * MIB
    for touched in range(1, GPUS + 1):
        holds = [int(gpu < touched) for gpu in range(GPUS)]
        assert told.row("touch_context", touched=touched) == holds
        assert told.row("touch_listed", touched=touched) == holds
        listed = [one * (told.listed_bytes + segment) for one in holds]
        assert told.row("touch_bytes", touched=touched, meter=NVML_PROCESS) == listed
        used = [told.init_bytes + one * (told.context_bytes + segment) for one in holds]
        assert told.row("touch_bytes", touched=touched, meter=NVML_DEVICE) == used
        assert told.one("touch_seconds", touched=touched) > 0


STRAY = {
    "device=cuda:1, synchronize()": 0,
    "device=cuda:1, mem_get_info()": 0,
    "device=cuda:1, Stream()": 0,
    "set_device(1), thread: synchronize()": 0,
    "set_device(1), torch.load": 2 * MIB,
    "set_device(1), thread: device=cuda": 2 * MIB,
}
"""What leaves a context on GPU 0 over the emulated driver, and what it allocates in it."""


@needs_emulator
@needs_torch
@pytest.mark.parametrize("call", PROGRAMS)
def test_what_leaves_a_stray_context(call: str) -> None:
    told = torch_told()[2]
    assert not told.failures
    stray = call in STRAY
    assert told.row("stray_context", call=call) == [int(stray), 1] + [0] * (GPUS - 2)
    first, second, *others = told.row("stray_bytes", call=call, meter=NVML_PROCESS)
    assert first == (told.listed_bytes + STRAY[call] if stray else 0)
    assert second == told.listed_bytes + 2 * MIB
    assert others == [0] * (GPUS - 2)


@needs_emulator
@needs_torch
def test_the_remedy_leaves_nothing_on_gpu_0() -> None:
    told = torch_told()[3]
    assert not told.failures
    assert told.row("stray_context", call=ONE_GPU_VISIBLE) == only(1, 1)
    assert told.row("stray_listed", call=ONE_GPU_VISIBLE) == only(1, 1)
    whole = told.init_bytes + told.context_bytes + 2 * MIB
    assert told.row("stray_bytes", call=ONE_GPU_VISIBLE, meter=NVML_DEVICE) == only(1, whole)


@needs_emulator
@needs_torch
def test_a_program_that_dies_leaves_its_reason() -> None:
    told = torch_told()[7]
    (failure,) = told.failures
    assert failure.startswith("cudaMalloc with peers: the process ended by SIG")
    (reason,) = {*told.values("malloc_ns").values(), *told.values("free_ns").values()}
    assert reason == failure.partition(": ")[2]
    assert told.one("peer_context", contexts="of all GPUs", peers=1, gpu=1) == 1


@needs_emulator
@needs_torch
@pytest.mark.parametrize("number", [4, 5])
def test_copies_enable_access_from_the_source(number: int) -> None:
    told = torch_told()[number]
    assert not told.failures
    expected = {(0, peer): 1 for peer in range(1, GPUS)}
    expected |= {(peer, 0): 0 for peer in range(1, GPUS)}
    assert told.values("access_enabled") == expected
    for copied in range(GPUS):
        for meter in (NVML_PROCESS, NVML_DEVICE, MEM_GET_INFO):
            assert told.row("copy_bytes", copied_to=copied, meter=meter) == [0] * GPUS
    misses = told.values("miss_ns")
    assert set(misses) == {(size * MIB, k) for size in (20, 200) for k in range(GPUS)}
    assert all(isinstance(value, float) and value > 0 for value in misses.values())
    assert len(told.values("copy_seconds")) == 2 * (GPUS - 1)


# TensorFlow.


def mode(subject: str, visible: str, rules: str = "") -> tuple[str, dict[str, Any], str]:
    return subject, {"part": "mode", "visible": visible}, rules


@cache
def modes_told() -> list[Told]:
    return emulated(
        mode("tf-greedy", "one"),
        mode("tf-greedy", "all"),
        mode("tf-limit", "all"),
    )


@needs_emulator
@needs_tensorflow
def test_greedy_takes_a_gpu_when_it_is_used_and_a_context_on_all() -> None:
    told = modes_told()[1]
    assert not told.failures
    place: dict[str, Any] = {"visible": "all", "meter": NVML_PROCESS}
    assert told.row("mode_bytes", point=CREATED, **place) == [told.listed_bytes] * GPUS
    first, *others = told.row("mode_bytes", point=FIRST_TENSOR, **place)
    assert first > 2048 * MIB and others == [told.listed_bytes] * (GPUS - 1)
    assert told.row("mode_bytes", point=EACH_TENSOR, **place) == [first] * GPUS
    for metric in ("mode_context", "mode_listed"):
        assert told.row(metric, visible="all", point=CREATED) == [1] * GPUS
    (share,) = {*told.row("mode_share", visible="all", point=EACH_TENSOR)}
    device = told.one("mode_bytes", **{**place, "meter": NVML_DEVICE}, point=EACH_TENSOR, gpu=0)
    assert share == pytest.approx(device / (4096 * MIB))


@needs_emulator
@needs_tensorflow
def test_what_is_hidden_stays_untouched() -> None:
    told = modes_told()[0]
    assert not told.failures
    for point in (CREATED, FIRST_TENSOR):
        shown = told.row("mode_bytes", visible="one", point=point, meter=NVML_DEVICE)
        assert shown[0] > told.context_bytes and shown[1:] == [0] * (GPUS - 1)
        assert told.row("mode_listed", visible="one", point=point) == only(0, 1)
    assert {figure.axes.get("point") for figure in told.figures} == {None, CREATED, FIRST_TENSOR}
    assert told.one("other_tensors_seconds", visible="one") == "one GPU is visible"


@needs_emulator
@needs_tensorflow
def test_a_limit_on_the_first_gpu_leaves_the_others_greedy() -> None:
    greedy, limit = modes_told()[1:]
    place: dict[str, Any] = {"visible": "all", "meter": NVML_PROCESS}
    first, *others = limit.row("mode_bytes", point=EACH_TENSOR, **place)
    assert first == limit.listed_bytes + 1024 * MIB
    assert others == greedy.row("mode_bytes", point=EACH_TENSOR, **place)[1:]


def test_a_step_that_fails_is_the_reason_of_those_after_it(
    two: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        mode, tensors = "tf-growth", list[object]()

        def list_devices(self) -> None:
            raise NotMeasurableError("no GPU for it")

    class Untouched:
        total_bytes: Callable[..., Any] = staticmethod(lambda: [1, 1])

    from io import StringIO

    from allocmark.experiments.core.recorder import Recorder

    stream = StringIO()
    part = Mode("tf-growth", {"visible": "all", "uuids": UUIDS})
    part.measure_program(Nothing(), Untouched(), Recorder(stream))  # type: ignore[arg-type]
    sent = [json.loads(line) for line in stream.getvalue().splitlines()]
    figures = [one["data"] for one in sent if one["kind"] == "figure"]
    reasons = {f["reason"] for f in figures if f["axes"].get("point") == CREATED}
    assert reasons == {"no GPU for it"}
    assert {f["reason"] for f in figures if f["axes"].get("point") == EACH_TENSOR} == {
        f"not reached: {CREATED} could not be done (no GPU for it)"
    }
    assert len(figures) == len(list(part.cells())) + 3 * 2
