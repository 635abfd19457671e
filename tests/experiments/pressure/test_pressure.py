from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import Any

import pytest

from allocmark.allocators import registry
from allocmark.allocators.base import Stats
from allocmark.cuda import runtime
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome
from allocmark.experiments.pressure import counters as pressure_counters
from allocmark.experiments.pressure import oom as pressure_oom
from allocmark.experiments.pressure.experiment import Pressure
from allocmark.experiments.pressure.oom import NEVER, RATIOS, _found, _Look
from allocmark.experiments.pressure.readings import BlockMap, Shown, parse_summary, summary_agrees
from allocmark.experiments.shared.event_replay import Replay, Script
from allocmark.schema.documents import Failure
from allocmark.schema.metrics.pressure import (
    COUNTERS,
    FIRST_ABOVE_EVENT,
    INACTIVE_SPLIT,
    LEAD_EVENTS,
    NO_LEAD,
    POINTS,
    SEEN_BEFORE,
    WHYS,
)
from tests.support.emulation import CountingAllocator, alloc, emulated, free, needs_torch, trace

KNOWN = list(registry().values())
MIB = 1 << 20

SUMMARY = """\
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
| Allocated memory      |   1000 KiB |   1024 MiB |   1024 MiB |   1023 MiB |
|       from large pool |      0 KiB |    960 MiB |    960 MiB |    960 MiB |
| GPU reserved memory   |     22 MiB |   1036 MiB |   1036 MiB |   1014 MiB |
| Non-releasable memory |    512 B   |     12 MiB |     12 MiB |     11 MiB |
"""


def test_reads_the_first_column_of_the_summary() -> None:
    rows = parse_summary(SUMMARY)
    assert rows["Allocated"] == Shown(1000 << 10, "memory_summary", 1 << 10)
    assert rows["GPU reserved"].value == 22 * MIB
    assert rows["Non-releasable"].value == 512


def test_the_summary_agrees_in_the_units_it_prints() -> None:
    shown: dict[str, Any] = {
        "memory_summary allocated": Shown(1000 << 10, "m", 1 << 10),
        "memory_summary reserved": Shown(22 * MIB, "m", MIB),
        "memory_summary non-releasable": Shown(512, "m"),
    }
    live = (1000 << 10) + 1023
    blocks = BlockMap(live, 512, 22 * MIB - live - 512)
    assert summary_agrees(shown, blocks)
    assert not summary_agrees(shown, BlockMap(live, 1024, 22 * MIB - live - 1024))


def test_the_program_takes_a_gibibyte_and_frees_half_of_it_in_between() -> None:
    allocator = CountingAllocator()
    held = [sum(allocator.live.values()) for _ in pressure_counters._walk(allocator)]
    assert held == [0, 1 << 30, 1 << 29, 1 << 29, 0, 0]
    assert len(held) == len(POINTS)


class StillBallast:
    """Says that it left what was wanted, and bounds the allocator by it."""

    def __init__(self, allocator: CountingAllocator) -> None:
        self._allocator = allocator

    def leave(self, wanted_bytes: int) -> int:
        self._allocator.capacity = wanted_bytes
        return wanted_bytes


def _run_towards_oom(
    events: list[tuple[Any, ...]], ratio: float, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    allocator = CountingAllocator()
    monkeypatch.setattr(runtime, "memory_info", lambda: (7, 10))
    out = io.StringIO()
    axes = pressure_oom.axes_of("w", ratio)
    script = Script.of(trace(*events))
    ballast: Any = StillBallast(allocator)
    pressure_oom._one(script, allocator, ballast, ratio, axes, Recorder(out))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    figures = [line["data"] for line in lines if line["kind"] == "figure"]
    every = [(m.name, place) for place, metrics in pressure_oom.cells("w", ratio) for m in metrics]
    assert [(figure["metric"], figure["axes"]) for figure in figures] == every
    told = {figure["metric"]: figure.get("value", figure.get("reason")) for figure in figures}
    for figure in figures:
        if figure["metric"] == FIRST_ABOVE_EVENT.name:
            told[f"{figure['axes']['sign']} {figure['axes']['above']}"] = figure.get(
                "value", figure.get("reason")
            )
    return told


def test_a_run_that_completes_has_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    told = _run_towards_oom([alloc(0, 3 * MIB), free(0)], 1.0, monkeypatch)
    assert told["completed"] == 1
    assert told["capacity_bytes"] == 4 * MIB
    assert told["failed_event"] == told["failed_cached_bytes"] == "it completed"
    assert told["cache_share_max"] == 0
    assert told["retries"] == told["first_retry_event"] == "counting does not tell this"
    assert told["cache_share 0.3"] == "it never showed"
    assert told["unreturnable_share 0.3"] == "the allocator does not tell this"


def test_a_run_that_fails_says_where_and_what_was_free(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [e for b in range(200) for e in (alloc(b, 512), free(b))]
    events += [alloc(200, 3 * MIB), alloc(201, 2 * MIB)]
    told = _run_towards_oom(events, 0.7, monkeypatch)
    assert told["completed"] == 0
    assert told["failed_event"] == 401
    assert told["failed_request_bytes"] == 2 * MIB
    assert told["failed_device_free_bytes"] == 7
    assert told["failed_largest_free_bytes"] == "counting does not tell this"


def _named(*run: Any) -> dict[str, float | None]:
    return {metric.name: value for metric, value in _found(*run).items()}


def test_only_what_was_seen_early_enough_counts_as_before() -> None:
    def look(event: int, share: float, retries: int) -> _Look:
        allocated = round(1000 * (1 - share))
        return _Look(event, Stats(allocated, 1000, retries=retries, inactive_split_bytes=event))

    looks = [look(0, 0.1, 0), look(100, 0.4, 1), look(101, 0.9, 5), look(200, 0.2, 6)]
    failed = _named(Replay(200, 0, 0.0, 100 + LEAD_EVENTS, 1, "full"), looks, 400, 0, 2000)
    assert (failed["cache_share_max"], failed["cache_share_max_before"]) == (0.9, 0.4)
    assert (failed["retries"], failed["retries_before"]) == (6, 1)
    assert failed["cache_share_last_before"] == 0.4
    assert failed["inactive_split_bytes_max_before"] == 100
    assert failed["reserved_share_last_before"] == 0.5
    assert failed["unreturnable_share_max_before"] == 0.45
    assert failed["first_retry_event"] == 100
    firsts = {(p["sign"], p["above"]): first for p, first in pressure_oom._firsts(looks, 2000)}
    # Cached 100, 400, 900 and 200 of 1000; live and split 900, 700, 201 and 1000 of 2000.
    assert firsts["cache_share", 0.3] == 100
    assert firsts["cache_share", 0.85] == 101
    assert firsts["cache_share", 0.9] == NEVER  # More than the level, not as much.
    assert firsts["unreturnable_share", 0.3] == 0
    assert firsts["unreturnable_share", 0.5] == NEVER
    completed = _named(Replay(201, 0, 0.0), looks, 101 + LEAD_EVENTS, 0, 2000)
    assert (completed["cache_share_max_before"], completed["retries_before"]) == (0.9, 5)


SIGNS = [metric.name for metric in SEEN_BEFORE]


@pytest.mark.parametrize("pairs", [0, 49])
def test_what_was_seen_before_a_run_that_ends_early_is_nothing_and_not_zero(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [e for b in range(pairs) for e in (alloc(b, 512), free(b))]
    failing = [*events, alloc(200, 3 * MIB), alloc(201, 2 * MIB)]
    told = _run_towards_oom(failing, 0.7, monkeypatch)
    assert told["failed_event"] == 2 * pairs + 1 < LEAD_EVENTS
    assert {told[sign] for sign in SIGNS} == {NO_LEAD}
    told = _run_towards_oom([*events, alloc(200, MIB)], 2.0, monkeypatch)
    assert told["completed"] == 1
    assert {told[sign] for sign in SIGNS} == {NO_LEAD}


def test_a_reading_just_early_enough_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [e for b in range(49) for e in (alloc(b, 512), free(b))]
    events += [alloc(199, 512), alloc(200, 3 * MIB), alloc(201, 2 * MIB)]
    told = _run_towards_oom(events, 0.7, monkeypatch)
    assert told["failed_event"] == LEAD_EVENTS
    assert told["cache_share_last_before"] == told["cache_share_max_before"] == 0
    assert told["retries_before"] == "counting does not tell this"


def test_capacities_run_coarse_to_fine_and_none_is_lost() -> None:
    assert sorted(pressure_oom._ORDER) == list(RATIOS)
    assert pressure_oom._ORDER[:3] == pressure_oom.QUICK_RATIOS


def test_who_is_asked_for_what() -> None:
    experiment = Pressure()
    quick, full = PROFILES["quick"], PROFILES["full"]
    assert "torch-split64" not in experiment.subjects(KNOWN, quick)
    assert "cuda-malloc" not in experiment.subjects(KNOWN, full)
    parts = {
        (subject, request.parameters["part"])
        for subject in experiment.subjects(KNOWN, full)
        for request in experiment.requests(subject, full, KNOWN)
    }
    assert {subject for subject, part in parts if part == "towards-oom"} == {
        "torch-native",
        "torch-expandable",
    }
    named = replace(full, patient=True)
    assert "torch-split64" in experiment.subjects(KNOWN, named)
    (patient,) = experiment.requests("torch-split64", named, KNOWN)
    assert (
        patient.limit_s
        > patient.parameters["seconds"]
        > experiment.requests("torch-native", full, KNOWN)[1].parameters["seconds"]
    )
    assert {("torch-async", "counters"), ("tf-growth", "counters")} <= parts
    assert ("torch-split64", "counters") not in parts
    _, oom = experiment.requests("torch-native", quick, KNOWN)
    assert oom.parameters["ratios"] == [1.0, 1.2, 1.5]


def test_each_dead_child_leaves_its_own_reasons() -> None:
    experiment = Pressure()
    counters, oom = experiment.requests("torch-native", PROFILES["quick"], KNOWN)
    cells = experiment.combine(
        [
            ChildOutcome(counters, 1, failures=[Failure("s", "it crashed")]),
            ChildOutcome(oom, 1, failures=[Failure("s", "it hung")]),
        ]
    )
    reasons = {figure.metric: figure.reason for figure in cells}
    assert reasons["shown_bytes"] == reasons["kept_bytes"] == "it crashed"
    assert reasons["completed"] == reasons["cache_share_max"] == "it hung"


@needs_torch
def test_counters_and_block_map_agree_on_torch() -> None:
    lines = emulated(
        "4GiB",
        """
import io
from allocmark.experiments.pressure.counters import measure_counters
from allocmark.experiments.core.recorder import Recorder
a = registry()["torch-native"]
a.open(0)
out = io.StringIO()
measure_counters(a, 0, Recorder(out))
print(json.dumps([json.loads(line) for line in out.getvalue().splitlines()]))
""",
    )
    assert [line for line in lines if line["kind"] == "failure"] == []
    figures = [line["data"] for line in lines if line["kind"] == "figure"]
    shown = {
        (f["axes"]["point"], f["axes"]["counter"]): f.get("value")
        for f in figures
        if f["metric"] == "shown_bytes"
    }
    kept = {
        (f["axes"]["point"], f["axes"]["why"]): f.get("value")
        for f in figures
        if f["metric"] == "kept_bytes"
    }
    assert {f["value"] for f in figures if f["metric"] == "summary_agrees"} == {1}
    assert len(shown) == len(POINTS) * len(COUNTERS)
    first = {f["axes"]["bytes"]: f["value"] for f in figures if f["metric"].startswith("first")}
    assert {size: value // MIB for size, value in first.items()} == {
        **{512: 2, MIB: 2, MIB + 512: 20, 9 * MIB: 20},
        **{10 * MIB: 10, 10 * MIB + 512: 12, 100 * MIB: 100, 100 * MIB + 512: 102},
    }
    assert shown["1 GiB taken", "allocated"] == 1 << 30
    assert shown["half freed", "allocated"] == 1 << 29
    before = shown["before", "cudaMemGetInfo used"]
    for point in POINTS:
        reserved = shown[point, "reserved"]
        assert shown[point, "cudaMemGetInfo used"] - before == reserved
        whys = WHYS[:3]
        assert sum(kept[point, why] for why in whys) == reserved
    emptied = "half freed, cache emptied"
    assert kept[emptied, "free segments"] == 0
    assert kept[emptied, INACTIVE_SPLIT] > 0
    assert shown["all freed", "reserved"] == shown[emptied, "reserved"]
    assert shown["all freed, cache emptied", "reserved"] == 0


@needs_torch
def test_a_run_fails_in_its_live_peak_and_completes_in_twice_that() -> None:
    told = emulated(
        "4GiB",
        """
import io
from allocmark.experiments.shared.ballast import Ballast
from allocmark.experiments.pressure.oom import _one, axes_of
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.shared.event_replay import Replay, Script
a = registry()["torch-native"]
a.open(0)
# 3 MiB blocks come six to a 20 MiB segment: 60 of them need 200 MiB, and their peak is 180.
s = Script.of(trace(*[alloc(b, 3 * MIB) for b in range(60)]))
told = []
with Ballast(0) as ballast:
    for ratio in (1.0, 2.0):
        out = io.StringIO()
        _one(s, a, ballast, ratio, axes_of("w", ratio), Recorder(out))
        data = [json.loads(line)["data"] for line in out.getvalue().splitlines()]
        values = {d["metric"]: d.get("value") for d in data if "metric" in d}
        told.append([values[m] for m in ("completed", "failed_event", "retries", "capacity_bytes")])
print(json.dumps(told))
""",
    )
    (failed, event, retries, capacity), completed = told
    # Eight segments: of 180 MiB the driver keeps the last page, and a ninth does not fit.
    assert (failed, event, retries) == (0, 48, 1)
    assert 180 * MIB <= capacity < 182 * MIB
    assert completed[:3] == [1, None, 0]
