from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.allocators import registry
from allocmark.allocators.base import Capability, Stats
from allocmark.cuda import runtime
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.experiments.core.outcomes import empty_cells
from allocmark.experiments.core.request import ChildOutcome
from allocmark.experiments.fragmentation import experiment as fragmentation
from allocmark.experiments.fragmentation.events import every_event
from allocmark.experiments.fragmentation.experiment import Fragmentation
from allocmark.experiments.shared import fragmentation_vector
from allocmark.experiments.shared.event_replay import Script
from allocmark.experiments.shared.fragmentation_vector import (
    Vector,
    figures,
    run_once,
)
from allocmark.schema.documents import Failure
from allocmark.schema.metrics.fragmentation import VECTOR
from allocmark.system.errors import NotMeasurableError
from allocmark.workloads import catalog
from allocmark.workloads.event_trace import Op
from tests.support.emulation import CountingAllocator, alloc, emulated, free, needs_torch, trace

KNOWN = list(registry().values())
MIB = 1 << 20


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> CountingAllocator:
    """An allocator whose live bytes are what its device lacks."""
    allocator = CountingAllocator()

    def memory_info() -> tuple[int, int]:
        return 1000 - sum(allocator.live.values()), 1000

    monkeypatch.setattr(runtime, "memory_info", memory_info)
    return allocator


def test_missing_counters_have_reasons_and_the_device_stands_in(
    device: CountingAllocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "stats", Stats)
    script = Script.of(trace(alloc(0, 100), alloc(1, 60), free(0), free(1)))
    vector = run_once(script, device)
    cells = {figure.metric: figure for figure in figures([vector], script, device, "w")}
    assert list(cells) == [metric.name for metric in VECTOR]
    assert cells["peak_reserved_bytes"].value == 160
    assert cells["peak_reserved_bytes"].meter == "cudaMemGetInfo, sampled"
    assert cells["waste_ratio"].value == 0
    assert cells["peak_allocated_bytes"].reason == "counting keeps no counter of this"
    assert cells["largest_free_bytes"].reason == "counting keeps no free blocks"
    assert cells["ooms"].value == 0


def test_a_workload_that_does_not_fit_says_where(device: CountingAllocator) -> None:
    device.capacity = 120
    with pytest.raises(NotMeasurableError, match=r"event 1 of 2, asking for 60 bytes: out of"):
        run_once(Script.of(trace(alloc(0, 100), alloc(1, 60))), device)
    assert device.live == {}


def test_every_change_of_a_counter_is_kept_with_its_event(
    device: CountingAllocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(3, 100))

    def stats() -> Stats:
        live = sum(device.live.values())
        return Stats(live + 12 * len(device.live), driver_allocs=next(calls), retries=7)

    monkeypatch.setattr(device, "stats", stats)
    script = Script.of(trace(alloc(0, 100), alloc(1, 60), free(0), free(1), alloc(2, 5), free(2)))
    assert every_event(script, device) == {
        # Read after events 0, 1, 4 and 5: not after a free, unless it is the last event.
        "allocated_over_requested": {"event_step": [1, 1, 3, 1], "step": [12, 12, -12, -12]},
        "driver_allocs": {"event_step": [1, 1, 3, 1], "step": [1, 1, 1, 1]},
        "retries": {"event_step": [], "step": []},  # seven at the start, and none since
    }


def test_exact_cells_that_differ_are_flagged(device: CountingAllocator) -> None:
    script = Script.of(trace(alloc(0, 100)))
    values = {metric.name: 1.0 for metric in VECTOR}
    runs = [Vector({**values, "peak_reserved_bytes": n}, {}, False, {}) for n in (1, 2)]
    cells = figures(runs, script, device, "w")
    flags = {figure.metric: figure.flags for figure in cells if figure.flags}
    assert flags == {"peak_reserved_bytes": ("does-not-repeat",)}


def test_kinds_follow_from_allocator_and_workload() -> None:
    plain = Script.of(trace(alloc(0, 1)))
    recording = Script.of(trace(alloc(0, 1), (Op.RECORD_STREAM, 0, 0, 1)))
    exact = registry()["torch-native"]
    assert fragmentation_vector.repeats_exactly(plain, exact)
    assert not fragmentation_vector.repeats_exactly(recording, exact)
    assert not fragmentation_vector.repeats_exactly(plain, registry()["torch-async"])


def test_quick_runs_visit_the_base_allocators_once() -> None:
    experiment = Fragmentation()
    quick = experiment.subjects(KNOWN, PROFILES["quick"])
    assert "torch-native" in quick and "torch-split64" not in quick
    assert "torch-split64" in experiment.subjects(KNOWN, PROFILES["full"])
    (request,) = experiment.requests("torch-native", PROFILES["quick"], KNOWN)
    assert request.parameters["repeats"] == 1
    (request,) = experiment.requests("torch-split64", PROFILES["full"], KNOWN)
    assert request.environment == {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}
    assert request.parameters["repeats"] == 1
    (request,) = experiment.requests("torch-native", PROFILES["full"], KNOWN)
    assert request.parameters["repeats"] == 3


def test_on_hardware_a_setting_is_read_at_every_event_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment, full = Fragmentation(), PROFILES["full"]

    def reads(name: str, profile: Profile) -> bool:
        (request,) = experiment.requests(name, profile, KNOWN)
        return bool(request.parameters["every_event"])

    monkeypatch.setattr(fragmentation, "is_emulated", lambda: False)
    assert reads("torch-native", full) and reads("tf-growth", full)
    assert not reads("torch-split64", full)
    assert reads("torch-split64", replace(full, patient=True))
    assert not reads("torch-native", PROFILES["quick"])
    monkeypatch.setattr(fragmentation, "is_emulated", lambda: True)
    assert reads("torch-split64", full)


def test_an_allocator_that_cannot_restart_gets_a_process_for_each_workload() -> None:
    experiment, allocator = Fragmentation(), CountingAllocator()
    allocator.capabilities = frozenset({Capability.EXACT})
    requests = experiment.requests("counting", PROFILES["full"], [allocator])
    assert {len(request.parameters["workloads"]) for request in requests} == {1}


def test_on_hardware_a_mode_that_takes_the_card_anew_each_time_runs_the_recorded_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment, full = Fragmentation(), PROFILES["full"]
    monkeypatch.setattr(fragmentation, "is_emulated", lambda: True)
    (request,) = experiment.requests("tf-greedy", full, KNOWN)
    assert request.parameters["workloads"] == catalog.names()
    monkeypatch.setattr(fragmentation, "is_emulated", lambda: False)
    (request,) = experiment.requests("tf-growth", full, KNOWN)
    assert request.parameters["workloads"] == catalog.names()
    (request,) = experiment.requests("tf-greedy", full, KNOWN)
    run = request.parameters["workloads"]
    assert run == catalog.recorded_names()
    told = experiment.combine([ChildOutcome(request, 1, failures=[Failure("s", "killed")])])
    why = {(f.axes["workload"] in run, (f.reason or "").split(":")[0]) for f in told}
    assert why == {(True, "killed"), (False, "left out")}
    assert len(told) == len(VECTOR) * len(catalog.names())


def test_a_dead_child_leaves_reasons_only_where_it_did_not_come() -> None:
    experiment = Fragmentation()
    (request,) = experiment.requests("torch-native", PROFILES["quick"], KNOWN)
    first, *rest = request.parameters["workloads"]
    done = empty_cells([({"workload": first}, VECTOR)], "its own reason")
    outcome = ChildOutcome(
        request, 1, done, failures=[Failure("s", "the process was ended by SIGKILL")]
    )
    cells = experiment.combine([outcome])
    assert len(cells) == len(VECTOR) * (len(rest) + 1)
    by_workload = {str(figure.axes["workload"]): figure.reason for figure in cells}
    assert by_workload.pop(first) == "its own reason"
    assert set(by_workload.values()) == {"the process was ended by SIGKILL"}


_VECTOR = """
from allocmark.experiments.shared.event_replay import Script
from allocmark.experiments.shared.fragmentation_vector import run_once
def vector(name, *events):
    a = registry()[name]
    a.open(0)
    a.restart()
    return dict(run_once(Script.of(trace(*events)), a).values)
"""


@needs_torch
def test_torch_segments_to_the_byte() -> None:
    told = emulated(
        "1GiB",
        _VECTOR
        + """
v = vector("torch-native", alloc(0, 1), alloc(1, MIB), alloc(2, MIB + 1), alloc(3, 10 * MIB + 1),
           free(1), free(2))
print(json.dumps(v))
""",
    )
    # 1 B rounds to 512 B and takes a 2 MiB segment, in which 1 MiB still fits; above 1 MiB a
    # 20 MiB one; from 10 MiB on the size in whole 2 MiB: 24 + 12 MiB less what is shared.
    assert told["peak_requested_bytes"] == 1 + MIB + MIB + 1 + 10 * MIB + 1
    assert told["peak_allocated_bytes"] == 512 + MIB + MIB + 512 + 10 * MIB + 512
    assert told["peak_reserved_bytes"] == told["device_bytes"] == (2 + 20) * MIB
    assert told["segments"] == told["driver_allocs"] == 2
    assert told["driver_frees"] == told["retries"] == told["ooms"] == 0
    assert told["hit_share"] == 0.5


@needs_torch
def test_the_largest_free_block_is_read_at_the_live_peak() -> None:
    told = emulated(
        "1GiB",
        _VECTOR
        + """
v = vector("torch-native", alloc(0, 30 * MIB), free(0), alloc(1, 31 * MIB), free(1))
print(json.dumps(v))
""",
    )
    assert told["largest_free_bytes"] == 30 * MIB
    assert told["peak_reserved_bytes"] == 62 * MIB


@needs_torch
@pytest.mark.parametrize("name", ["torch-expandable", "torch-split64", "torch-roundup4"])
def test_settings_are_seen_to_be_in_force(name: str) -> None:
    code = f"""
from allocmark.experiments.shared.allocator_setting import setting_in_force
a = registry()["{name}"]
a.open(0)
print(json.dumps(setting_in_force(a)))
"""
    wanted = {
        "torch-expandable": "expandable_segments:True",
        "torch-split64": f"max_split_size:{64 * MIB}",
        "torch-roundup4": "roundup_power2_divisions:4",
    }
    assert wanted[name] in emulated("1GiB", code, dict(registry()[name].environment))
    with pytest.raises(AssertionError, match="NotMeasurableError"):
        emulated("1GiB", code)


@needs_torch
def test_garbage_collection_without_a_fraction_is_called_idle() -> None:
    code = """
from allocmark.experiments.shared.allocator_setting import setting_in_force
a = registry()["torch-gc80"]
a.open(0)
words = [setting_in_force(a)]
import torch
torch.cuda.set_per_process_memory_fraction(0.5)
print(json.dumps([*words, setting_in_force(a)]))
"""
    idle, acting = emulated("1GiB", code, dict(registry()["torch-gc80"].environment))
    assert idle.endswith("does nothing without a memory fraction below 1")
    assert "does nothing" not in acting


@needs_torch
def test_repeats_to_the_byte() -> None:
    told = emulated(
        "4GiB",
        """
from allocmark.experiments.shared.event_replay import Script
from allocmark.experiments.fragmentation.events import every_event
from allocmark.experiments.shared.fragmentation_vector import run_once
import random
random.seed(5)
events, live = [], []
for b in range(3000):
    events.append(alloc(b, random.choice([700, 5000, MIB + 3, 7 * MIB, 11 * MIB])))
    live.append(b)
    if len(live) > 40:
        events.append(free(live.pop(random.randrange(len(live)))))
a = registry()["torch-native"]
a.open(0)
runs = []
for _ in range(3):
    a.restart()
    runs.append({k: v for k, v in run_once(Script.of(trace(*events)), a).values.items()
                 if k != "replay_seconds"})
print(json.dumps(runs))
""",
    )
    assert told[0] == told[1] == told[2]
    assert told[0]["peak_reserved_bytes"] == told[0]["device_bytes"]


_FAULTY = """
import os, time
from allocmark.allocators.cuda_malloc import CudaMalloc

class Faulty(CudaMalloc):
    def alloc(self, size_bytes, stream=0):
        self.count = getattr(self, "count", 0) + 1
        if self.count > 2000:
            {fault}
        return super().alloc(size_bytes, stream)

ALLOCATORS = (Faulty("faulty"),)
"""


@needs_torch
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("os.abort()", "ended by SIGABRT"),
        ("time.sleep(600)", "stopped after its time limit of 3 s"),
        ("raise ValueError('not today')", "ValueError: not today"),
    ],
    ids=["crash", "hang", "error"],
)
def test_a_fault_empties_only_what_comes_after_it(fault: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "faulty.py"
    file.write_text(_FAULTY.format(fault=fault))
    told = emulated(
        "8GiB",
        f"""
from dataclasses import replace
from pathlib import Path
from allocmark.experiments.core.experiment import PROFILES, Profile
from allocmark.experiments.fragmentation.experiment import Fragmentation
from allocmark.experiments.core.launcher import launch_all
file = Path({str(file)!r})
experiment = Fragmentation()
known = list(registry(file).values())
(faulty,) = experiment.requests("faulty", PROFILES["quick"], known)
(plain,) = experiment.requests("cuda-malloc", PROFILES["quick"], known)
some = {{"workloads": ["uniform", "pinned"], "repeats": 1, "every_event": False}}
requests = [
    replace(faulty, limit_s=3, parameters=some, allocator_file=file),
    replace(plain, parameters=some),
]
cells = [experiment.combine([outcome]) for outcome in launch_all(requests)]
print(json.dumps([
    [[f.axes["workload"], f.metric, f.value, f.reason] for f in one] for one in cells
]))
""",
    )
    faulty, plain = ({(w, m): (value, why) for w, m, value, why in one} for one in told)
    assert set(faulty) == set(plain)
    assert faulty["uniform", "driver_allocs"] == plain["uniform", "driver_allocs"]
    assert reason in faulty["pinned", "driver_allocs"][1]
    assert plain["pinned", "driver_allocs"][0] is not None
