from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.allocators import names, registry
from allocmark.allocators.torch_caching import NO_CACHE
from allocmark.experiments.capacity import experiment as capacity
from allocmark.experiments.capacity.experiment import Capacity
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.shared.ballast import STEP_BYTES
from allocmark.experiments.shared.capacity_search import (
    MOST_RUNS,
    Attempt,
    Found,
    finest_resolution,
    smallest_capacity,
)
from allocmark.experiments.shared.event_replay import Script, replay
from allocmark.schema import metrics
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.schema.flags import ABOVE_UNLIMITED_PEAK, NOT_MONOTONIC
from tests.support.emulation import (
    CountingAllocator,
    alloc,
    emulated,
    needs_emulator,
    needs_torch,
    trace,
)

KNOWN = list(registry().values())
MIB = 1 << 20


Completes = Callable[[int], bool]


def _attempt(completes: Completes, short_of: Callable[[int], int] = lambda c: 0) -> Attempt:
    return lambda capacity: None if completes(capacity) else short_of(capacity)


def _found(completes: Completes, live: int, upper: int, **how: Any) -> Found:
    return smallest_capacity(_attempt(completes), live, upper, **how)


@given(
    live=st.integers(1, 200 << 30),
    extra=st.floats(0, 5),
    where=st.floats(0, 1),
    short=st.none() | st.integers(0, 1 << 40),
)
def test_finds_the_true_threshold_whatever_is_guessed(
    live: int, extra: float, where: float, short: int | None
) -> None:
    upper = live + int(live * extra)
    threshold = int(live + (upper - live) * where)
    asked: list[int] = []

    def attempt(capacity: int) -> int | None:
        asked.append(capacity)
        told = threshold if short is None else short
        return None if capacity >= threshold else told

    found = smallest_capacity(attempt, live, upper)
    assert found.capacity_bytes is not None
    assert found.resolution_bytes == finest_resolution(live)
    assert 0 <= found.capacity_bytes - threshold < found.resolution_bytes
    assert found.flags == ()
    assert len(asked) == len(set(asked)) <= MOST_RUNS
    if short is None:  # What was short is right: one run at the peak, the answer, its neighbours.
        assert len(asked) <= 6
    assert all(capacity % STEP_BYTES == 0 for capacity in asked)
    # Both sides were run: the answer's step above, and the one below unless it is below the peak.
    assert found.capacity_bytes + found.resolution_bytes in asked
    below = found.capacity_bytes - found.resolution_bytes
    assert below in asked or below < live


@given(holes=st.sets(st.integers(0, 40)), top=st.integers(0, 60))
def test_the_answer_lies_above_every_capacity_that_was_seen_to_fail(
    holes: set[int], top: int
) -> None:
    live = 100 * MIB
    found = _found(lambda c: (c - live) // (2 * MIB) not in holes, live, live + top * 2 * MIB)
    assert found.capacity_bytes is not None
    tried = dict(found.tried)
    assert tried[found.capacity_bytes]
    lowest = min(capacity for capacity, served in found.tried if served)
    larger = [capacity for capacity, served in found.tried if not served and capacity > lowest]
    assert (NOT_MONOTONIC in found.flags) == bool(larger)
    if ABOVE_UNLIMITED_PEAK not in found.flags:
        assert all(capacity < found.capacity_bytes for capacity in larger)


def test_without_time_the_first_that_completes_is_a_coarse_answer() -> None:
    found = _found(lambda c: c >= 150 * MIB, 100 * MIB, 400 * MIB, more=lambda: False)
    assert found.capacity_bytes is not None
    assert found.capacity_bytes - found.resolution_bytes < 150 * MIB <= found.capacity_bytes
    assert found.resolution_bytes > finest_resolution(100 * MIB)
    assert sum(served for _, served in found.tried) == 1


@given(sizes=st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=20), slack=st.integers(0, 300))
def test_an_allocator_that_wastes_nothing_needs_the_live_peak(sizes: list[int], slack: int) -> None:
    work = trace(*[alloc(block, size) for block, size in enumerate(sizes)])
    peak = work.peak_requested_bytes

    def completes(capacity: int) -> bool:
        return replay(work, CountingAllocator(capacity)).completed

    found = _found(completes, peak, peak + slack * MIB)
    assert found.capacity_bytes is not None
    assert 0 <= found.capacity_bytes - peak < found.resolution_bytes


def test_resolution_is_half_a_percent_in_whole_steps_of_at_least_one() -> None:
    assert finest_resolution(1) == 2 * MIB
    assert finest_resolution(400 * MIB) == 2 * MIB
    assert finest_resolution(1000 * MIB) == 4 * MIB
    assert finest_resolution(100 << 30) == 512 * MIB


def test_a_wide_range_is_searched_as_finely() -> None:
    found = _found(lambda capacity: capacity >= 3 << 30, 100 * MIB, 10 << 30)
    assert (found.capacity_bytes, found.resolution_bytes) == (3 << 30, 2 * MIB)
    assert len(found.tried) <= 18


def test_says_when_a_larger_capacity_fails() -> None:
    found = _found(lambda c: c in (14 * MIB, 18 * MIB), 10 * MIB, 18 * MIB)
    assert (found.capacity_bytes, found.flags) == (18 * MIB, (NOT_MONOTONIC,))


def test_says_when_more_is_needed_under_a_limit_than_without() -> None:
    found = _found(lambda c: c >= 20 * MIB, 10 * MIB, 18 * MIB)
    assert (found.capacity_bytes, found.flags) == (20 * MIB, (ABOVE_UNLIMITED_PEAK,))


@given(st.integers(19 * MIB, 40 * MIB))
def test_looks_above_what_was_held_without_a_limit(threshold: int) -> None:
    found = _found(lambda c: c >= threshold, 10 * MIB, 18 * MIB)
    assert found.flags == (ABOVE_UNLIMITED_PEAK,)
    assert found.capacity_bytes is not None
    assert 0 <= found.capacity_bytes - threshold < found.resolution_bytes
    assert len(found.tried) <= MOST_RUNS
    above = [capacity for capacity, _ in found.tried if capacity > found.capacity_bytes]
    assert min(above) - found.capacity_bytes <= found.resolution_bytes


@given(extra=st.integers(0, 200), need=st.floats(0, 1))
def test_a_search_from_above_finds_the_same_as_one_by_halves(extra: int, need: float) -> None:
    live, upper = 1000 * MIB, (1000 + extra) * MIB
    threshold = live + int(need * extra * MIB)

    def found(*, live_only: bool) -> Found:
        found = _found(lambda c: c >= threshold, live, upper, live_only=live_only)
        return replace(found, tried=())

    assert found(live_only=True) == found(live_only=False)


@given(extra=st.integers(0, 200), more=st.integers(0, 2))
def test_who_needs_what_it_held_is_searched_in_three_runs(extra: int, more: int) -> None:
    upper = (1000 + extra) * MIB
    found = _found(lambda c: c >= upper + more * MIB, 1000 * MIB, upper, live_only=True)
    assert found.capacity_bytes is not None
    assert 0 <= found.capacity_bytes - upper - more * MIB < found.resolution_bytes
    assert len(found.tried) <= 3
    assert found.capacity_bytes + found.resolution_bytes in [tried[0] for tried in found.tried]


def test_a_failure_above_an_answer_beyond_the_unlimited_peak_is_said() -> None:
    found = _found(lambda c: c == 20 * MIB, 10 * MIB, 18 * MIB)
    assert (found.capacity_bytes, found.flags) == (20 * MIB, (ABOVE_UNLIMITED_PEAK, NOT_MONOTONIC))


def test_has_no_answer_when_nothing_completes() -> None:
    assert _found(lambda c: False, 10 * MIB, 18 * MIB).capacity_bytes is None


def test_a_search_that_needs_no_halving_is_only_confirmed() -> None:
    found = _found(lambda c: c >= 10 * MIB, 10 * MIB, 10 * MIB)
    assert found.tried == ((10 * MIB, True), (12 * MIB, True))


def _task(run_seconds: float, workload: str = "uniform", *, cached: bool = True) -> capacity._Task:
    return capacity._Task(workload, Script.of(trace(alloc(0, MIB))), MIB, run_seconds, cached)


def test_what_will_not_be_searched_is_not_run_without_a_limit_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran, searched = [], []

    def unlimited(workload: str, allocator: object) -> capacity._Task:
        ran.append(workload)
        return _task(0.9, workload)

    monkeypatch.setattr(capacity, "setting_in_force", lambda allocator: "")
    monkeypatch.setattr(capacity, "Ballast", lambda device: nullcontext())
    monkeypatch.setattr(capacity, "_unlimited", unlimited)
    monkeypatch.setattr(
        capacity._Search, "report", lambda self, *_: searched.append(self._task.workload)
    )
    names = ["uniform", "bimodal", "pinned", "boundary", "training"]
    request = Request("capacity", "any", 60, {"workloads": names, "search_seconds": 7.0})
    sent = io.StringIO()
    Capacity().measure(request, CountingAllocator(), Recorder(sent))
    assert ran == searched == names[:2]  # Two searches of at least 3.6 s each fill the time.
    messages = [json.loads(line) for line in sent.getvalue().splitlines()]
    reasons = {
        m["data"]["axes"]["workload"]: m["data"]["reason"]
        for m in messages
        if m["kind"] == "figure"
    }
    assert list(reasons) == names[2:]
    assert set(reasons.values()) == {
        "left out: the searches of others fill the 7 s for all workloads "
        "(with --experiment and --subject there are 60)"
    }


def test_who_is_named_gets_the_time_it_needs() -> None:
    experiment = Capacity()
    named = replace(PROFILES["full"], patient=True)
    assert "torch-split64" in experiment.subjects(KNOWN, named)
    (hurried,) = experiment.requests("cuda-malloc", PROFILES["full"], KNOWN)
    (patient,) = experiment.requests("cuda-malloc", named, KNOWN)
    assert hurried.parameters["search_seconds"] < 30 < patient.parameters["search_seconds"]
    assert patient.limit_s > hurried.limit_s


@pytest.mark.parametrize(("cached", "runs"), [(True, 4), (False, 3)])
def test_a_search_without_the_time_for_one_says_so(
    cached: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "setting_in_force", lambda allocator: "")
    monkeypatch.setattr(capacity, "Ballast", lambda device: nullcontext())
    monkeypatch.setattr(capacity, "_unlimited", lambda *_: _task(100.0, cached=cached))
    request = Request("capacity", "any", 60, {"workloads": ["uniform"], "search_seconds": 60.0})
    sent = io.StringIO()
    Capacity().measure(request, CountingAllocator(), Recorder(sent))
    reasons = {
        m["data"]["reason"]
        for m in map(json.loads, sent.getvalue().splitlines())
        if m["kind"] == "figure"
    }
    assert reasons == {
        f"left out: a search needs {runs} runs of 100.0 s, too long for what is left of the 60 s "
        "for all workloads"
    }


def test_figures_stand_in_the_order_of_the_workloads_whatever_was_searched_first() -> None:
    experiment = Capacity()
    (request,) = experiment.requests("torch-native", PROFILES["full"], KNOWN)
    names = request.parameters["workloads"]
    told = [
        Figure("search_runs", "runs", "sampled", "m", {"workload": name}, 1)
        for name in reversed(names)
    ]
    figures = experiment.combine([ChildOutcome(request, 1, told)])
    assert list(dict.fromkeys(f.axes["workload"] for f in figures)) == names


def test_full_runs_search_every_setting_and_like_ones_once_on_hardware(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    experiment = Capacity()
    assert experiment.subjects(KNOWN, PROFILES["quick"]) == []
    chosen = experiment.subjects(KNOWN, PROFILES["full"])
    settings = {name for name in names(framework="torch") if name != NO_CACHE}
    assert settings < set(chosen)
    assert "cuda-malloc" in chosen and NO_CACHE not in chosen
    assert registry()[NO_CACHE].same_driver_calls == "cuda-malloc"
    monkeypatch.setattr(capacity, "is_emulated", lambda: True)
    assert NO_CACHE in experiment.subjects(KNOWN, PROFILES["full"])


def test_a_child_that_died_leaves_a_reason_in_every_cell() -> None:
    experiment = Capacity()
    (request,) = experiment.requests("torch-native", PROFILES["full"], KNOWN)
    figures = experiment.combine(
        [ChildOutcome(request, 1, failures=[Failure("s", "it was killed")])]
    )
    assert len(figures) == len(metrics.declared()["capacity"]) * len(
        request.parameters["workloads"]
    )
    assert {figure.reason for figure in figures} == {"it was killed"}


_SEARCH = """
from allocmark.experiments.shared.ballast import Ballast
from allocmark.experiments.capacity.experiment import _Search, _Task
from allocmark.experiments.shared.fragmentation_vector import run_once
from allocmark.experiments.shared.event_replay import Script
from allocmark.experiments.core.recorder import Recorder
import io
def search(name, work):
    a = registry()[name]
    a.open(0)
    s = Script.of(work)
    a.restart()
    seen = run_once(s, a).values
    upper = int(max(seen["device_bytes"], seen["peak_reserved_bytes"]))
    task = _Task("w", s, upper, 0.01, cached=name.startswith("torch"))
    out = io.StringIO()
    with Ballast(0) as b:
        _Search(task, a, b).report(60, Recorder(out))
    data = [json.loads(line) for line in out.getvalue().splitlines()]
    told = {d["data"]["metric"]: d["data"]["value"] for d in data if d["kind"] == "figure"}
    shown = ["smallest_capacity_bytes", "unlimited_device_bytes"]
    return [*(told[metric] // MIB for metric in shown), told["search_runs"]]
"""


# Each answer is one page of 2 MiB more than the allocator takes: the driver keeps the last one.


@needs_torch
def test_torch_needs_its_whole_segments() -> None:
    # 11 MiB come from a 12 MiB segment, in which 3 MiB do not fit: those from one of 20 MiB.
    work = "search('torch-native', trace(alloc(0, 11 * MIB), alloc(1, 3 * MIB)))"
    assert emulated("4GiB", f"{_SEARCH}\nprint(json.dumps({work}))") == [34, 32, 7]


@needs_torch
def test_torch_gives_its_cache_back_before_it_fails() -> None:
    # Without a limit the freed 100 MiB stay cached beside the 101 of the next: 202 in all. Under
    # a limit they are given back and the allocation is tried again: 102 MiB are enough for it.
    work = "search('torch-native', trace(alloc(0, 100 * MIB), free(0), alloc(1, 101 * MIB)))"
    assert emulated("4GiB", f"{_SEARCH}\nprint(json.dumps({work}))") == [104, 202, 9]


@needs_torch
def test_a_live_block_pins_its_segment() -> None:
    # The 20 MiB segment of the freed 9 MiB also holds the live 2: it cannot be given back.
    events = "alloc(0, 9 * MIB), alloc(1, 2 * MIB), free(0), alloc(2, 30 * MIB)"
    assert emulated(
        "4GiB", f"{_SEARCH}\nprint(json.dumps(search('torch-native', trace({events}))))"
    ) == [52, 50, 4]


@needs_torch
@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ("torch-split64", [104, 202]),
        ("torch-split256", [104, 202]),
        ("torch-gc80", [104, 202]),
        ("torch-expandable", [122, 120]),  # It grows in steps of 20 MiB.
        ("torch-roundup4", [114, 112]),  # Both sizes are rounded up to 112 MiB.
        ("torch-expandable-roundup4", [122, 120]),
    ],
)
def test_each_setting_needs_to_the_page_what_its_rules_say(setting: str, found: list[int]) -> None:
    work = f"search({setting!r}, trace(alloc(0, 100 * MIB), free(0), alloc(1, 101 * MIB)))"
    environment = dict(registry()[setting].environment)
    assert emulated("4GiB", f"{_SEARCH}\nprint(json.dumps({work}))", environment)[:2] == found


@needs_torch
def test_a_setting_that_acts_on_a_limit_has_the_capacity_as_its_limit() -> None:
    # Beyond 80 % of the limit torch returns the free 100 MiB before it asks for 102 more.
    code = """
a = registry()["torch-gc80"]
a.open(0)
kept = []
for limit in (1024 * MIB, 200 * MIB):
    a.restart()
    a.limit(limit)
    first, second = a.alloc(100 * MIB), a.alloc(70 * MIB)
    a.free(first)
    third = a.alloc(101 * MIB)
    kept.append([a.stats().reserved_bytes // MIB, a.stats().retries])
    a.free(second)
    a.free(third)
print(json.dumps(kept))
"""
    assert emulated("2GiB", code, dict(registry()["torch-gc80"].environment)) == [
        [272, 0],
        [172, 0],
    ]


@needs_torch
@pytest.mark.parametrize("workload", ["pinned", "training", "recorded-serving"])
def test_allocators_of_the_same_driver_calls_need_the_same(workload: str) -> None:
    twins = [NO_CACHE, str(registry()[NO_CACHE].same_driver_calls)]
    load = "from allocmark.workloads import catalog"
    code = f"{_SEARCH}\n{load}\nprint(json.dumps(search(%r, catalog.load({workload!r}))))"
    first, second = (
        emulated("16GiB", code % name, dict(registry()[name].environment)) for name in twins
    )
    assert first[0] == second[0]


@needs_emulator
def test_plain_cuda_malloc_needs_what_is_live() -> None:
    events = "alloc(0, 64 * MIB), alloc(1, 32 * MIB), free(0), alloc(2, 16 * MIB)"
    assert emulated(
        "4GiB", f"{_SEARCH}\nprint(json.dumps(search('cuda-malloc', trace({events}))))"
    ) == [98, 96, 3]
