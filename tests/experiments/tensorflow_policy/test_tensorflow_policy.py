"""TensorFlow's modes beside torch: bytes on the emulated driver, and what becomes of failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.allocators.tensorflow_gpu import MODES
from allocmark.experiments.catalog import experiment
from allocmark.experiments.core import experiment as core_experiment
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.framework_programs import (
    SUBJECTS,
    TensorFlow,
    Torch,
    environment_of,
    in_one_line,
    limit_bytes,
    program_of,
    tensor_set,
)
from allocmark.experiments.tensorflow_policy import experiment as policy
from allocmark.experiments.tensorflow_policy import readings
from allocmark.experiments.tensorflow_policy.readings import PointReading
from allocmark.schema.device_meters import MEM_GET_INFO, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.metrics.tensorflow_policy import (
    CREATED,
    EMPTIED,
    ENDED,
    FIRST_TENSOR,
    IMPORTED,
    LISTED,
    LIVE_PEAK,
    POINTS,
)
from allocmark.system.errors import NotMeasurableError, UnknownNameError
from allocmark.system.units import GIB, MIB
from tests.support.emulation import missing_for_emulation, needs_emulator, needs_torch

needs_tensorflow = pytest.mark.skipif(
    (reason := missing_for_emulation("tensorflow")) is not None, reason=reason or ""
)
BFC_MODES = ("tf-greedy", "tf-growth", "tf-limit")
CARD = 8 * GIB
SET = 1233
"""MiB of the set on such a card, without the first tensor."""

RUN = """
import json, sys
from dataclasses import replace
from allocmark.experiments.core.launcher import launch_all
from allocmark.experiments.tensorflow_policy.experiment import EXPERIMENT
requests = []
for subject, asked, rules in json.loads(sys.argv[1]):
    request = replace(EXPERIMENT.request(subject, asked), device=asked.get("device", 0))
    faults = {"ALLOCMARK_EMULATOR_FAULTS": rules} if rules else {}
    requests.append(replace(request, environment={**request.environment, **faults}))
told = []
for outcome in launch_all(requests):
    figures = EXPERIMENT.combine([outcome])
    told.append({
        "figures": [figure.to_json() for figure in figures],
        "failures": [f"{failure.stage}: {failure.reason}" for failure in outcome.failures],
        "notes": dict(outcome.notes),
    })
print(json.dumps(told))
"""


class Told:
    """What one process reported."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.figures = [Figure.from_json(figure) for figure in data["figures"]]
        self.failures: list[str] = data["failures"]
        self.notes: dict[str, str] = data["notes"]

    def one(self, metric: str, **axes: Any) -> float | str | None:
        """Return a value, or the reason: MiB where it is bytes."""
        (found,) = [f for f in self.figures if f.metric == metric and dict(f.axes) == axes]
        if found.value is None:
            return found.reason
        return found.value / MIB if found.unit == "bytes" else found.value

    def row(self, metric: str, axis: str, **axes: Any) -> dict[Any, Any]:
        """Return the values of a metric over one axis."""
        found = [f for f in self.figures if f.metric == metric and axes.items() <= f.axes.items()]
        return {f.axes[axis]: self.one(metric, **f.axes) for f in found}


def emulated(*asked: tuple[str, dict[str, Any], str], gpus: int = 1) -> list[Told]:
    """Run parts of subjects on the emulated driver, each with the faults that it is to meet."""
    command = [sys.executable, "-m", "allocmark.emulator", "--memory", "8GiB"]
    done = subprocess.run(
        [*command, "--devices", str(gpus), "--", sys.executable, "-c", RUN, json.dumps(asked)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [Told(one) for one in json.loads(done.stdout.splitlines()[-1])]


WALK = {"part": "points", "way": None, "quick": True}


def test_it_is_an_experiment_of_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    assert experiment("tensorflow_policy") is policy.EXPERIMENT
    full = PROFILES["full"]
    monkeypatch.setattr(policy, "why_absent", lambda framework: None)
    assert policy.EXPERIMENT.subjects([], full) == list(SUBJECTS)
    monkeypatch.setattr(policy, "why_absent", lambda framework: "it is not installed")
    assert policy.EXPERIMENT.subjects([], full) == list(MODES)
    assert {policy.EXPERIMENT.framework(mode, []) for mode in MODES} == {"tensorflow"}
    assert policy.EXPERIMENT.framework("torch", []) == "torch"


def test_a_framework_that_is_missing_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_experiment, "installed", lambda framework: {"tensorflow": None})
    with pytest.raises(NotMeasurableError, match="tensorflow is not installed here"):
        policy.EXPERIMENT.requests("tf-growth", PROFILES["quick"], [])


def parts(subject: str, profile: str, monkeypatch: pytest.MonkeyPatch) -> list[Request]:
    monkeypatch.setattr(core_experiment, "installed", lambda framework: {framework: "1"})
    monkeypatch.setattr(core_experiment, "lacks_cuda", lambda framework, found: False)
    return policy.EXPERIMENT.requests(subject, PROFILES[profile], [])


def test_each_part_has_processes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [request.parameters["part"] for request in parts("tf-limit", "full", monkeypatch)]
    assert asked == [
        *["cold"] * 6,
        *("points", "release", "release", "steps", "no retry", "virtual"),
        *("combined", "combined", "combined", "pairs"),
    ]
    asked = [request.parameters["part"] for request in parts("torch", "full", monkeypatch)]
    assert asked == [*["cold"] * 6, "points", "steps", "pairs"]
    asked = [request.parameters["part"] for request in parts("tf-greedy", "quick", monkeypatch)]
    assert asked == [*["cold"] * 3, "points"]
    asked = [request.parameters["part"] for request in parts("tf-growth", "quick", monkeypatch)]
    assert asked == [*["cold"] * 3, "points", "release", "release"]


def test_the_mode_of_async_is_a_variable_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for subject in MODES:
        for request in parts(subject, "full", monkeypatch):
            named = "TF_GPU_ALLOCATOR" in request.environment
            assert named == (subject == "tf-async" and request.parameters["part"] != "no retry")
            forced = request.parameters.get("setting", "").startswith("limit, ")
            assert ("TF_FORCE_GPU_ALLOW_GROWTH" in request.environment) == forced
    assert environment_of("tf-greedy", "A=false")["A"] == "false"
    assert environment_of("torch") == {}


@pytest.mark.parametrize(
    ("card", "limit"),
    [(140 * GIB, 4096), (16 * GIB, 4096), (12 * GIB, 2048), (8 * GIB, 2048), (6 * GIB, 1024)],
)
def test_the_limit_of_a_card(card: int, limit: int) -> None:
    assert limit_bytes(card) == limit * MIB


@given(st.integers(2 * GIB, 200 * GIB))
def test_two_limits_fit_and_the_set_fits_a_limit(card: int) -> None:
    assert 2 * limit_bytes(card) <= card
    assert 0.5 * limit_bytes(card) < sum(tensor_set(card)) < 0.7 * limit_bytes(card)
    assert all(size % MIB == 0 for size in tensor_set(card))


def test_programs_by_name() -> None:
    assert isinstance(program_of("torch", 0), Torch)
    assert isinstance(program_of("tf-limit", 0), TensorFlow)
    with pytest.raises(UnknownNameError, match="subject of tensorflow_policy"):
        program_of("tf-eager", 0)


def test_an_error_is_its_class_and_first_line() -> None:
    assert in_one_line(ValueError("\nno\nreally")) == "ValueError: no"
    assert in_one_line(KeyError()) == "KeyError"


class Scripted:
    """A worker that fails in one step."""

    def __init__(self, failing: str) -> None:
        self.pid, self.way, self._failing = 7, "", failing
        self.closed = False

    def answer(self) -> None:
        if self._failing == "import":
            raise NotMeasurableError("no module named tensorflow")

    def order(self, *order: str) -> Any:
        if order[0] == self._failing:
            raise NotMeasurableError(f"{order[0]} is broken")
        return {"used": "no context", "counters": {}, "host": 1}

    def close(self) -> None:
        self.closed = True


class Still:
    """A card on which nothing happens."""

    def start(self, worker: object) -> None:
        pass

    def read(self, worker: object, inside: object) -> PointReading:
        return reading(0, 0)


def reading(process: int | str, device: int, used: int | str = "no context") -> PointReading:
    shown = {NVML_PROCESS: process, NVML_DEVICE: device, MEM_GET_INFO: used}
    return PointReading(shown, {}, 1, None)


def walk(failing: str) -> dict[str, Any]:
    worker: Any = Scripted(failing)
    still: Any = Still()
    told = dict(readings.walk(worker, still, [p for p in POINTS if not p.endswith("later")]))
    return told


def test_what_comes_after_a_failed_step_names_it() -> None:
    told = walk("create")
    assert isinstance(told[LISTED], PointReading)
    assert told[CREATED] == "create is broken"
    why = "not reached: device created could not be done (create is broken)"
    assert told[FIRST_TENSOR] == told[ENDED] == why


def test_what_a_failed_import_leaves_has_its_reason_at_every_point() -> None:
    told = walk("import")
    assert set(told.values()) == {"no module named tensorflow"}
    assert readings.added(told, LIVE_PEAK, CREATED, MEM_GET_INFO) == "no module named tensorflow"


def test_a_cache_that_cannot_be_emptied_ends_nothing() -> None:
    told = walk("empty")
    assert told[EMPTIED] == "empty is broken"
    assert isinstance(told[ENDED], PointReading)


def test_a_process_holds_nothing_before_and_after_nvml_lists_it() -> None:
    told: dict[str, PointReading | str] = {
        IMPORTED: reading("not listed", 10),
        CREATED: reading(500, 530, 540),
        LIVE_PEAK: reading(600, 640, 640),
        ENDED: reading("not listed", 12, "it has ended"),
    }
    added: Callable[..., int | str] = readings.added
    assert added(told, CREATED, IMPORTED, NVML_PROCESS) == 500
    assert added(told, CREATED, IMPORTED, NVML_DEVICE) == 520
    assert "no reading to start from" in str(added(told, CREATED, IMPORTED, MEM_GET_INFO))
    assert added(told, LIVE_PEAK, CREATED, MEM_GET_INFO) == 100
    assert added(told, ENDED, IMPORTED, NVML_PROCESS) == 0
    assert added(told, ENDED, IMPORTED, NVML_DEVICE) == 2
    assert added(told, IMPORTED, CREATED, NVML_DEVICE) == "before the device exists"
    assert added(told, FIRST_TENSOR, CREATED, NVML_DEVICE) == "before the device exists"


def test_cold_times_are_joined_and_gaps_have_their_own_reasons() -> None:
    cold = Request("tensorflow_policy", "tf-growth", 1.0, {"part": "cold"})
    retry = Request("tensorflow_policy", "tf-growth", 1.0, {"part": "no retry"})
    seconds = [0.1, 0.3, 0.2]
    outcomes = [
        *(
            ChildOutcome(cold, 1.0, [Figure("device_seconds", "s", "time", "c", {}, s)])
            for s in seconds
        ),
        ChildOutcome(retry, 1.0, failures=[Failure("start", "no session")]),
    ]
    told = {figure.metric: figure for figure in policy.EXPERIMENT.combine(outcomes)}
    assert told["device_seconds"].value == 0.2
    assert told["device_seconds"].samples == seconds
    assert told["first_tensor_seconds"].reason == "the probe ended before it came to this"
    assert told["past_limit_seconds"].reason == "no session"


@pytest.fixture(scope="module")
def torch_told() -> list[Told]:
    """Parts of torch on the emulated driver, some of which meet a fault."""
    return emulated(
        ("torch", WALK, ""),
        ("torch", {"part": "steps"}, ""),
        ("torch", {"part": "pairs", "seconds": ["torch"]}, ""),
        ("torch", WALK, "cudaMalloc@3=error:719"),
        ("torch", WALK, "cudaMalloc@3=crash"),
        ("torch", {"part": "pairs", "seconds": ["torch"]}, "cudaMalloc@3=crash"),
    )


@needs_emulator
@needs_torch
def test_torch_takes_on_demand_and_gives_back_when_told(torch_told: list[Told]) -> None:
    told = torch_told[0]
    assert not told.failures
    since = told.row("since_device_bytes", "point", meter=NVML_DEVICE)
    # 2 MiB for the first tensor of 1 MiB and what is small, 20 MiB pieces for 8 MiB and so on.
    assert since["first tensor"] == 2
    live = since["live peak"]
    assert since["all dropped"] == since["1 s later"] == live
    assert since["cache emptied"] == 0
    assert since["5 s later"] == "left out of the quick profile"
    assert SET <= live <= SET + 40
    assert told.one("returned_bytes", after="cache emptied", meter=NVML_DEVICE) == live
    assert told.one("returned_bytes", after="1 s later", meter=NVML_DEVICE) == 0
    held = told.row("held_bytes", "point", meter=NVML_DEVICE)
    assert held["imported"] == held["process ended"] == 0
    assert told.one("counter_bytes", point="live peak", counter="allocated") == SET + 1
    assert told.one("counter_bytes", point="live peak", counter="reserved") == live
    assert told.one("live_bytes") == SET


@needs_emulator
@needs_torch
def test_torch_asks_for_two_mebibytes_at_a_time(torch_told: list[Told]) -> None:
    told = torch_told[1]
    assert not told.failures
    assert told.one("steps") == -(-SET // 2)
    assert set(told.row("step_bytes", "step").values()) == {2.0}
    assert told.one("beyond_need_bytes") == 1
    assert told.one("past_limit_failed", retry="default") == 1
    assert told.notes["error: past the limit, retry default"].startswith(
        "OutOfMemoryError: CUDA out of"
    )


@needs_emulator
@needs_torch
def test_two_of_torch_share_nothing(torch_told: list[Told]) -> None:
    told = torch_told[2]
    assert told.one("pair_failed", second="torch") == 0
    assert told.one("shared_bytes") == 0
    for process in ("first", "second"):
        assert told.one("pair_live_bytes", second="torch", process=process) == SET + 1
    # The emulated driver has no IPC, and says so: that is no statement about torch.
    assert "not supported" in str(told.one("ipc_exported", way="framework"))
    assert "not supported" in str(told.one("ipc_exported", way="cuIpcGetMemHandle"))


@needs_emulator
@needs_torch
@pytest.mark.parametrize(
    ("which", "why"), [(3, "AcceleratorError: CUDA error"), (4, "ended by SIG")]
)
def test_a_fault_on_the_way_is_the_reason_from_there_on(
    torch_told: list[Told], which: int, why: str
) -> None:
    told = torch_told[which]
    held = told.row("held_bytes", "point", meter=NVML_DEVICE)
    assert held["device created"] > 500
    assert why in held["live peak"]
    assert f"not reached: live peak could not be done ({why.split(':', maxsplit=1)[0]}" in (
        held["all dropped"].replace("a process ", "")
    )
    assert any(why in failure for failure in told.failures)


@needs_emulator
@needs_torch
def test_a_first_process_that_crashes_leaves_every_pair_a_reason(torch_told: list[Told]) -> None:
    told = torch_told[5]
    assert "ended by SIG" in str(told.one("pair_failed", second="torch"))
    assert "ended by SIG" in str(told.one("shared_bytes"))


@pytest.fixture(scope="module")
def tensorflow_told() -> list[Told]:
    """Parts of TensorFlow that do not wait ten seconds, on the emulated driver."""
    return emulated(
        ("tf-growth", {**WALK, "way": "TF_FORCE_GPU_ALLOW_GROWTH=true"}, ""),
        ("tf-limit", {**WALK}, ""),
        ("tf-limit", {"part": "combined", "setting": "limit after growth"}, ""),
        ("tf-limit", {"part": "virtual"}, ""),
        ("tf-greedy", {"part": "no retry"}, ""),
        ("tf-growth", {"part": "pairs", "seconds": ["tf-growth"]}, ""),
    )


@needs_emulator
@needs_tensorflow
def test_growth_keeps_what_it_took_until_the_process_ends(tensorflow_told: list[Told]) -> None:
    told = tensorflow_told[0]
    assert not told.failures
    since = told.row("since_device_bytes", "point", meter=NVML_DEVICE)
    assert since["first tensor"] == 2
    assert since["live peak"] == since["all dropped"] == since["1 s later"] >= SET
    assert "no call" in str(since["cache emptied"])
    assert told.one("held_bytes", point="process ended", meter=NVML_DEVICE) == 0
    assert told.one("modes_agree", way="TF_FORCE_GPU_ALLOW_GROWTH=true") == 1
    # BFC splits a chunk only where half of it would be left over: some tensors get more than asked.
    assert told.one("counter_bytes", point="live peak", counter="allocated") == SET + 7
    assert "does not tell" in str(told.one("counter_bytes", point="live peak", counter="reserved"))


@needs_emulator
@needs_tensorflow
def test_the_context_lies_outside_the_limit(tensorflow_told: list[Told]) -> None:
    told = tensorflow_told[1]
    assert told.one("limit_bytes") == 2048
    above = told.row("above_limit_bytes", "why", meter=NVML_PROCESS)
    assert above["all"] == above["context"] > 0
    assert above["rest"] == 0


@needs_emulator
@needs_tensorflow
def test_a_limit_after_growth_is_taken_whole(tensorflow_told: list[Told]) -> None:
    told = tensorflow_told[2]
    assert told.one("setting_refused", setting="limit after growth") == 0
    assert told.one("combined_first_tensor_bytes", setting="limit after growth") == 2048
    assert tensorflow_told[3].row("virtual_bytes", "devices") == {
        "first": 1024,
        "second": 512,
        "both": 1536,
    }


@needs_emulator
@needs_tensorflow
def test_without_retry_nothing_waits(tensorflow_told: list[Told]) -> None:
    told = tensorflow_told[4]
    assert told.one("past_limit_failed", retry="off") == 1
    assert float(str(told.one("past_limit_seconds", retry="off"))) < 5
    assert told.notes["error: past the limit, retry off"].startswith("ResourceExhaustedError: ")


@needs_emulator
@needs_tensorflow
def test_beside_growth_there_is_room(tensorflow_told: list[Told]) -> None:
    told = tensorflow_told[5]
    assert told.row("pair_failed", "second") == {"tf-growth": 0}
    assert told.one("shared_bytes") == 0
    assert told.one("ipc_exported", way="framework") == 0


@pytest.fixture(scope="module")
def beside_another() -> list[Told]:
    """A limit set by a session, which sees both GPUs, on the first and on the second of them."""
    return emulated(
        ("tf-limit", {**WALK, "way": "ConfigProto virtual_devices"}, ""),
        ("tf-limit", {"part": "no retry"}, ""),
        ("tf-limit", {"part": "no retry", "device": 1}, ""),
        gpus=2,
    )


@needs_emulator
@needs_tensorflow
def test_another_gpu_gets_a_context_and_changes_nothing_else(
    beside_another: list[Told], tensorflow_told: list[Told]
) -> None:
    told, alone = beside_another[0], tensorflow_told[1]
    assert not told.failures
    for metric in ("held_bytes", "above_limit_bytes", "returned_bytes"):
        found = [f.axes for f in alone.figures if f.metric == metric]
        assert found
        assert [told.one(metric, **a) for a in found] == [alone.one(metric, **a) for a in found]
    assert told.one("modes_agree", way="ConfigProto virtual_devices") == 1
    others = told.row("other_gpus_bytes", "point")
    assert others["live peak"] == told.one("above_limit_bytes", why="all", meter=NVML_DEVICE)
    assert others["process ended"] == 0
    assert "one GPU" in str(alone.one("other_gpus_bytes", point="live peak"))


@needs_emulator
@needs_tensorflow
def test_a_session_limits_one_gpu_of_two(beside_another: list[Told]) -> None:
    for told in beside_another[1:]:
        assert not told.failures
        assert told.one("past_limit_failed", retry="off") == 1


@pytest.fixture(scope="module")
def released_told() -> dict[tuple[str, str], Told]:
    """What BFC does where a request would not fit beside what was dropped."""
    places = [(mode, one) for mode in BFC_MODES for one in ("default", "off")]
    told = emulated(*((mode, {"part": "release", "collection": one}, "") for mode, one in places))
    return dict(zip(places, told, strict=True))


@needs_emulator
@needs_tensorflow
def test_growth_releases_free_regions_for_a_request_that_would_not_fit(
    released_told: dict[tuple[str, str], Told],
) -> None:
    on, off = (released_told["tf-growth", one] for one in ("default", "off"))
    assert not on.failures and not off.failures
    assert on.one("release_failed", collection="default") == 0
    # 8 of 1,208 MiB stay, and 1,500 more are to fit in 2 GiB.
    assert 1200 <= on.one("released_bytes", collection="default") <= 2048  # type: ignore[operator]
    assert off.one("release_failed", collection="off") == 1
    assert "the request failed" in str(off.one("released_bytes", collection="off"))
    assert "ResourceExhaustedError" in off.notes["error: release, off"]


@needs_emulator
@needs_tensorflow
@pytest.mark.parametrize("mode", ["tf-greedy", "tf-limit"])
def test_in_one_region_nothing_has_to_be_released(
    released_told: dict[tuple[str, str], Told], mode: str
) -> None:
    for one in ("default", "off"):
        told = released_told[mode, one]
        assert told.one("release_failed", collection=one) == 0
        assert told.one("released_bytes", collection=one) == 0


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_quick_run_says_of_each_cell_of_a_full_one_that_it_is_left_out(subject: str) -> None:
    def combined(profile: str) -> list[Figure]:
        parameters = policy._parameters(subject, PROFILES[profile])
        requests = [policy.EXPERIMENT.request(subject, one) for one in parameters]
        return policy.EXPERIMENT.combine([ChildOutcome(request, 1.0) for request in requests])

    def places(figures: list[Figure]) -> set[tuple[str, frozenset[tuple[str, Axis]]]]:
        return {(figure.metric, frozenset(figure.axes.items())) for figure in figures}

    quick, full = combined("quick"), combined("full")
    assert places(quick) == places(full)
    left_out = {f.metric for f in quick if f.reason == "left out of the quick profile"}
    assert {"beyond_need_bytes", "steps", "past_limit_failed", "pair_failed"} <= left_out
    assert not any(figure.reason == "left out of the quick profile" for figure in full)
