"""Latency: every cell has a value or a reason, and a hit is a hit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from io import StringIO
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from allocmark.allocators import names as allocators
from allocmark.allocators import registry
from allocmark.allocators.base import Capability, Tier
from allocmark.cuda import runtime
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome
from allocmark.experiments.latency import misses
from allocmark.experiments.latency.cells import CELLS, SIZES, CallCell, expected, why_empty
from allocmark.experiments.latency.check import EMPTY_PAIR_NS
from allocmark.experiments.latency.experiment import EXPERIMENT, Latency
from allocmark.experiments.latency.hits import _completed, _Readings, _visits, measure_hits
from allocmark.experiments.latency.levels import Bench
from allocmark.experiments.latency.misses import measure_misses
from allocmark.meters.quiet import QuietSamples
from allocmark.meters.timing import Timed
from allocmark.schema.documents import Failure
from allocmark.schema.metrics.latency import PYTHON_METER
from allocmark.system.units import GIB, KIB, MIB
from tests.support.emulation import needs_tensorflow, needs_torch
from tests.support.timing import CachingAllocator, Cells, cells, in_child, key, recorded, request_of

SOME = [512, 2 * MIB, 32 * GIB]
SHORT: dict[str, Any] = {"sizes": SOME, "hit_batches": 20, "single_calls": 200, "miss_samples": 6}
SLACK = 3
CLOCK_NS = 60
"""What two clocks may differ by over a batch of one pair."""


def names(sizes: list[int]) -> set[tuple[str, tuple[tuple[str, object], ...]]]:
    return {(metric.name, key(axes)) for axes, metrics in expected(sizes) for metric in metrics}


def test_sizes_are_every_second_power_of_two() -> None:
    assert SIZES[0] == 512
    assert SIZES[-1] == 128 * GIB
    assert len(SIZES) == 15


def test_hits_until_completion_are_given_at_one_pace() -> None:
    loop: Any = SimpleNamespace(
        alloc=lambda size: Timed(1, 10),
        free=lambda wait: Timed(2, 20),
        pair=lambda size: Timed(3, 30),
    )

    def take(read: Callable[[], Any], count: int) -> QuietSamples[Any]:
        return QuietSamples([read() for _ in range(count)], [0.5, 2.0], quiet=True)

    bench: Any = SimpleNamespace(quiet=SimpleNamespace(take=take), keeps=True)
    found = _Readings()
    _completed(bench, loop, 512, 2, found)
    assert found.completed == {"alloc": [5, 20], "free": [10, 40], "pair": [15, 60]}


def test_cells_come_once_each() -> None:
    places = [(metric.name, key(axes)) for axes, metrics in expected(SIZES) for metric in metrics]
    assert len(places) == len(set(places))
    assert Counter(metric for metric, _ in places) == {
        "call_ns": 9 * 2 * 2 * 15,
        "call_p50_ns": 3 * 2 * 15,
        "call_p99_ns": 3 * 2 * 15,
        "empty_pair_ns": 2,
        "clock_ns": 2,
        "cross_check_loop_ns": 2,
        "cross_check_program_ns": 2,
        "cross_check_ratio": 2,
    }


def test_subjects_are_ways_to_get_memory_not_settings() -> None:
    subjects = Latency().subjects(list(registry().values()), PROFILES["full"])
    assert set(allocators(tier=Tier.BASE)) <= set(subjects)
    assert "torch-split64" not in subjects


@pytest.mark.parametrize("name", ["cuda-malloc", "torch-nocache"])
def test_without_a_cache_there_is_no_hit(name: str) -> None:
    why = why_empty(registry()[name], False, CallCell("hit", "pair", "allocator", "host"))
    assert why is not None
    assert name in why


@pytest.mark.parametrize(
    ("name", "keeps", "place", "empty"),
    [
        ("cuda-malloc", False, CallCell("miss", "alloc", "allocator", "complete"), False),
        ("cuda-malloc", False, CallCell("give-back", "free", "allocator", "host"), False),
        ("cuda-malloc", False, CallCell("miss", "alloc", "op", "host"), True),
        ("torch-native", True, CallCell("hit", "pair", "op", "host"), False),
        ("torch-native", True, CallCell("hit", "pair", "op", "complete"), True),
        ("torch-async", True, CallCell("hit", "pair", "op", "complete"), False),
        ("cuda-malloc-async-0", False, CallCell("hit", "free", "allocator", "host"), False),
        ("cuda-malloc-async-0", False, CallCell("hit", "alloc", "allocator", "complete"), False),
        ("cuda-malloc-async-0", False, CallCell("hit", "free", "allocator", "complete"), True),
        ("cuda-malloc-async-max", True, CallCell("hit", "free", "allocator", "complete"), False),
        ("rmm-pool", True, CallCell("miss", "alloc", "allocator", "host"), True),
        ("rmm-pool", True, CallCell("first", "alloc", "allocator", "host"), False),
    ],
)
def test_reasons(name: str, keeps: bool, place: CallCell, empty: bool) -> None:
    assert (why_empty(registry()[name], keeps, place) is not None) == empty


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "memory_info", lambda: (8 * GIB, 8 * GIB))
    for module in ("hits", "misses"):
        monkeypatch.setattr(
            f"allocmark.experiments.latency.{module}.after_failure", lambda bench: bench.clean()
        )


def run_fake(allocator: CachingAllocator, sizes: list[int]) -> tuple[Cells, ChildOutcome]:
    request = request_of("latency", "cuda-malloc", **{**SHORT, "sizes": sizes})
    bench = Bench(allocator)

    def measure(recorder: object) -> None:
        measure_misses(bench, request.parameters, recorder)  # type: ignore[arg-type]
        measure_hits(bench, request.parameters, recorder)  # type: ignore[arg-type]

    outcome = recorded(measure, request)
    return cells(list(outcome.figures)), outcome


def test_hits_never_ask_the_driver_and_misses_always_do(no_gpu: None) -> None:
    allocator = CachingAllocator()
    found, outcome = run_fake(allocator, [512])
    assert not outcome.failures
    assert allocator.live == {}
    hit = found["call_ns", key(CallCell("hit", "pair", "allocator", "host").axes(512))]
    assert hit.value is not None
    assert "driver-calls" not in hit.flags
    assert len(hit.samples) == 20
    tail = found["call_p99_ns", key(CallCell("hit", "pair", "allocator", "host").axes(512))]
    assert 200 <= sum(tail.counts) < 2 * 200
    miss = found["call_ns", key(CallCell("miss", "alloc", "allocator", "host").axes(512))]
    assert len(miss.samples) == 6
    assert miss.meter == PYTHON_METER
    middle, tail = (
        found[metric, key(CallCell("hit", "alloc", "allocator", "host").axes(512))]
        for metric in ("call_p50_ns", "call_p99_ns")
    )
    assert middle.value is not None
    assert tail.value is not None
    assert middle.value <= tail.value
    assert 20 * sum(middle.counts) == sum(tail.counts)


def test_hit_that_asks_the_driver_is_flagged(no_gpu: None) -> None:
    class Forgetful(CachingAllocator):
        def free(self, block: int, stream: int = 0) -> None:
            self.live.pop(block)

    found, _ = run_fake(Forgetful(), [512])
    hit = found["call_ns", key(CallCell("hit", "pair", "allocator", "host").axes(512))]
    assert "driver-calls" in hit.flags


@pytest.mark.parametrize(("cycle_s", "samples"), [(0.001, 6), (0.15, 3), (1.0, 2)])
def test_each_level_of_a_miss_has_its_own_time_at_every_size(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, cycle_s: float, samples: int
) -> None:
    class WithOperation(CachingAllocator):
        capabilities = CachingAllocator.capabilities | {Capability.OP}

        def op(self, size_bytes: int) -> object:
            return bytearray(1)

    clock = count(step=cycle_s)  # It is read as a cycle begins and as it ends.
    fake = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(misses, "time", fake)
    monkeypatch.setattr(runtime, "memory_info", lambda: (160 * GIB, 160 * GIB))
    bench, sent = Bench(WithOperation()), StringIO()
    asked = {"sizes": [512, 32 * GIB], "miss_samples": 6, "miss_seconds": 0.5, "least_misses": 2}
    measure_misses(bench, asked, Recorder(sent))
    figures = [m["data"] for m in map(json.loads, sent.getvalue().splitlines())]
    told = [f for f in figures if f["axes"]["path"] == "miss" and f["value"] is not None]
    assert {(f["axes"]["level"], f["axes"]["bytes"]) for f in told} == {
        (level, size) for level in ("allocator", "op") for size in (512, 32 * GIB)
    }
    assert {len(f["samples"]) for f in told} == {samples}


def test_libraries_beside_the_base_allocators_stop_at_8_gib() -> None:
    full, largest = PROFILES["full"], "largest_bytes"

    def asked(name: str) -> Any:
        (child,) = Latency().children(registry()[name], full)
        return child[largest]

    assert asked("cupy-pool") == 8 * GIB
    assert asked("torch-native") is None


def test_size_that_cannot_be_had_leaves_its_cells_empty_and_no_other(no_gpu: None) -> None:
    found, outcome = run_fake(CachingAllocator(fail_bytes=64 * MIB), [512, 64 * MIB, 32 * GIB])
    assert not outcome.failures
    for path, call in CELLS:
        small, large, huge = (
            found["call_ns", key(CallCell(path, call, "allocator", "host").axes(size))]
            for size in (512, 64 * MIB, 32 * GIB)
        )
        assert small.value is not None
        assert large.reason == "does not fit: 8 GiB free, and yet 64 MiB cannot be had"
        assert huge.reason == "does not fit: 8 GiB free"


def test_what_ends_at_an_allocator_s_own_limit_is_not_blamed_on_the_device(no_gpu: None) -> None:
    limited = CachingAllocator(fail_bytes=64 * MIB)
    limited.limit_bytes = 32 * MIB
    found, _ = run_fake(limited, [512, 64 * MIB])
    reasons = {f.reason for f in found.values() if f.axes.get("bytes") == 64 * MIB}
    assert "does not fit into the 32 MiB that are this allocator's limit" in reasons
    assert not any("free, and yet" in (reason or "") for reason in reasons)


def test_every_reading_names_its_meter_with_a_cache_and_without(no_gpu: None) -> None:
    uncached = CachingAllocator()
    uncached.capabilities = frozenset({Capability.EXACT})
    for allocator in (CachingAllocator(), uncached):
        found, _ = run_fake(allocator, [512])
        read = [figure for figure in found.values() if figure.value is not None]
        assert {figure.axes["path"] for figure in read} >= {"miss", "give-back"}
        assert all(figure.meter for figure in read)


def test_call_that_fails_otherwise_is_a_failure_of_its_size_alone(no_gpu: None) -> None:
    broken = CachingAllocator(fail_bytes=64 * MIB, error=RuntimeError("broken, says the test"))
    found, outcome = run_fake(broken, [512, 64 * MIB])
    assert {failure.reason for failure in outcome.failures} == {
        "RuntimeError: broken, says the test"
    }
    place = CallCell("miss", "pair", "allocator", "host")
    assert found["call_ns", key(place.axes(512))].value is not None
    assert found["call_ns", key(place.axes(64 * MIB))].reason == (
        "RuntimeError: broken, says the test"
    )


def test_child_that_died_leaves_every_cell_with_its_reason() -> None:
    request = request_of("latency", "cuda-malloc")
    killed = ChildOutcome(
        request, 1.0, failures=[Failure("misses", "the process was ended by SIGKILL")]
    )
    found = cells(EXPERIMENT.combine([killed]))
    assert set(found) == names(list(SIZES))
    assert {figure.reason for figure in found.values()} == {"the process was ended by SIGKILL"}


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """What each allocator's child reported, run once for all tests."""
    return {}


def run(measured: dict[str, Any], subject: str) -> tuple[Cells, Any]:
    if subject not in measured:
        measured[subject] = in_child("latency", subject, **SHORT)
    return cells(measured[subject]["figures"]), measured[subject]


SUBJECTS = [
    pytest.param(
        name,
        marks=needs_tensorflow if registry()[name].framework == "tensorflow" else needs_torch,
    )
    for name in allocators(tier=Tier.BASE)
]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_cell_has_a_value_or_a_reason(measured: dict[str, Any], subject: str) -> None:
    found, outcome = run(measured, subject)
    assert outcome["failures"] == []
    assert set(found) == names(SOME)
    for (metric, _), figure in found.items():
        assert figure.value is not None or figure.reason
        if figure.axes.get("bytes") == 32 * GIB:
            assert figure.value is None
        if metric == "empty_pair_ns" and figure.axes["level"] == "allocator":
            assert (
                figure.value is None
                or "native" not in figure.meter
                or (figure.value <= SLACK * EMPTY_PAIR_NS)
            )
    first = found["call_ns", key(CallCell("first", "alloc", "allocator", "host").axes(512))]
    assert len(first.samples) == 1
    hit = found["call_ns", key(CallCell("hit", "pair", "allocator", "host").axes(512))]
    caches = subject not in ("cuda-malloc", "torch-nocache")
    assert (hit.value is not None) == caches
    assert "driver-calls" not in hit.flags


@pytest.mark.parametrize("subject", SUBJECTS)
def test_timed_call_is_the_library_s_own(measured: dict[str, Any], subject: str) -> None:
    """Nothing of the suite's own lies between the timed loop and what a bare loop calls.

    The two took turns; the least of many batches of each is what a loaded machine leaves alone.
    """
    found, _ = run(measured, subject)
    for size in (2 * MIB, 128 * MIB):
        loop, bare, ratio = (
            found[metric, key({"bytes": size})]
            for metric in ("cross_check_loop_ns", "cross_check_program_ns", "cross_check_ratio")
        )
        assert loop.value, loop.reason
        assert ratio.value
        assert min(loop.samples) == pytest.approx(min(bare.samples), rel=0.1, abs=CLOCK_NS)


@needs_torch
def test_pool_that_gives_back_at_each_synchronization(measured: dict[str, Any]) -> None:
    found, _ = run(measured, "cuda-malloc-async-0")
    completed = found["call_ns", key(CallCell("hit", "free", "allocator", "complete").axes(512))]
    assert completed.reason is not None
    assert "empties this pool" in completed.reason
    back = found["call_ns", key(CallCell("give-back", "free", "allocator", "host").axes(512))]
    assert back.meter == "synchronization after the free"


@needs_torch
def test_levels_of_an_uncached_torch_share_one_loop(measured: dict[str, Any]) -> None:
    found, _ = run(measured, "torch-nocache")
    own, operation = (
        found["call_ns", key(CallCell("miss", "pair", level, "host").axes(512))]
        for level in ("allocator", "op")
    )
    assert own.samples == operation.samples
    assert own.meter == "Python loop over the operation"


def test_small_sizes_come_in_turns() -> None:
    visits = _visits([KIB, MIB, 8 * GIB])
    assert [size for size, _ in visits] == [KIB, MIB] * 4 + [8 * GIB]
    assert sum(share for size, share in visits if size == KIB) == 1


def test_an_allocator_of_a_users_own_is_measured_in_every_run() -> None:
    own = CachingAllocator()
    for profile in PROFILES.values():
        assert own.name in Latency().subjects([own], profile)
