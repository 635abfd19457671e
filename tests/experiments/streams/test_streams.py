"""Streams: bytes held to the byte, every cell with a value or a reason, threads in step."""

from __future__ import annotations

from typing import Any

import pytest

from allocmark import allocators
from allocmark.allocators import registry
from allocmark.allocators.base import Allocator, Capability, Tier
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.core.request import ChildOutcome
from allocmark.experiments.streams import pools, tasks
from allocmark.experiments.streams import threads as streams_threads
from allocmark.experiments.streams.experiment import EXPERIMENT, Streams
from allocmark.experiments.streams.pools import POOL_BLOCK_BYTES, POOL_BLOCKS
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.system.units import MIB
from tests.support.emulation import needs_torch
from tests.support.timing import Cells, cells, in_child, key, recorded, request_of

COUNTS = (1, 2, 4, 8, 16)
STREAMING = allocators.names(tier=Tier.BASE, having=Capability.STREAMS)
SEGMENT_BYTES = {1 * MIB: 2 * MIB, 2 * MIB: 20 * MIB, 32 * MIB: 32 * MIB}
"""What torch reserves for one block: its small, its large and its huge segments."""


def names() -> set[tuple[str, tuple[tuple[str, object], ...]]]:
    expected = (*tasks.cells(), *pools.cells(), *streams_threads.cells())
    return {(metric.name, key(axes)) for axes, metrics in expected for metric in metrics}


def task(found: Cells, metric: str, use: str, streams: int, size: int) -> Figure:
    return found[metric, key({"use": use, "streams": streams, "bytes": size})]


@pytest.fixture(scope="module")
def measured() -> dict[str, Any]:
    """What each allocator's child reported, run once for all tests."""
    return {}


def run(measured: dict[str, Any], subject: str) -> tuple[Cells, Any]:
    if subject not in measured:
        measured[subject] = in_child("streams", subject, repeats=2)
    return cells(measured[subject]["figures"]), measured[subject]


def test_subjects_know_streams() -> None:
    everyone = list(registry().values())
    full = Streams().subjects(everyone, PROFILES["full"])
    assert "cuda-malloc" not in full
    assert "torch-nocache" not in full
    assert {"torch-native", "torch-split64", "cuda-malloc-async-max"} <= set(full)
    assert "torch-gc80" not in full  # Nothing limits it there, and so it does nothing.
    assert Streams().subjects(everyone, PROFILES["quick"]) == STREAMING


def test_child_that_died_leaves_every_cell_with_its_reason() -> None:
    request = request_of("streams", "torch-native")
    hung = ChildOutcome(request, 1.0, failures=[Failure("threads", "stopped after its time limit")])
    found = cells(EXPERIMENT.combine([hung]))
    assert set(found) == names()
    assert {figure.reason for figure in found.values()} == {"stopped after its time limit"}


def test_allocator_without_native_calls_says_why_there_are_no_threads() -> None:
    class NoCalls(Allocator):
        framework = "fake"

        def open(self, device: int) -> None: ...
        def alloc(self, size_bytes: int, stream: int = 0) -> int:
            return 1

        def free(self, block: int, stream: int = 0) -> None: ...
        def synchronize(self) -> None: ...

    request = request_of("streams", "torch-native")
    outcome = recorded(
        lambda recorder: streams_threads.measure(NoCalls("plain"), 0, 2, recorder), request
    )
    assert not outcome.failures
    assert len(outcome.figures) == 4 * 2 * 3 - 2  # One thread has no speed-up over itself.
    assert all("interpreter's lock" in (figure.reason or "") for figure in outcome.figures)


@needs_torch
@pytest.mark.parametrize("subject", STREAMING)
def test_every_cell_has_a_value_or_a_reason(measured: dict[str, Any], subject: str) -> None:
    found, outcome = run(measured, subject)
    assert outcome["failures"] == []
    assert set(found) == names()
    records = Capability.RECORD_STREAM in registry()[subject].capabilities
    for count in COUNTS:
        for size in tasks.SIZES:
            handoff = task(found, "reserved_bytes", "handoff", count, size)
            assert (handoff.value is not None) == (records and count > 1)
            assert handoff.value is not None or handoff.reason
            assert task(found, "pair_ns", "one-shot", count, size).value is not None
    for threads in (1, 2, 4, 8):
        for stream in ("own", "shared"):
            axes = key({"threads": threads, "stream": stream})
            throughput = found["throughput_per_s", axes].samples
            assert len(throughput) == 2
            one = found["throughput_per_s", key({"threads": 1, "stream": stream})].samples
            ratios = [several / alone for several, alone in zip(throughput, one, strict=True)]
            if threads > 1:
                assert found["speedup", axes].samples == pytest.approx(ratios)
            else:
                assert ("speedup", axes) not in found


@needs_torch
@pytest.mark.parametrize("subject", ["torch-native"])
@pytest.mark.parametrize("use", ["private", "one-shot"])
def test_each_stream_holds_a_segment_of_its_own(
    measured: dict[str, Any], subject: str, use: str
) -> None:
    found, _ = run(measured, subject)
    for count in COUNTS:
        for size, segment in SEGMENT_BYTES.items():
            for metric in ("reserved_bytes", "peak_reserved_bytes"):
                figure = task(found, metric, use, count, size)
                assert figure.value == count * segment
                assert figure.kind == "exact"
                assert len(set(figure.samples)) == 1


@needs_torch
def test_handoff_holds_at_least_what_private_use_does(measured: dict[str, Any]) -> None:
    found, _ = run(measured, "torch-native")
    for count in COUNTS[1:]:
        for size, segment in SEGMENT_BYTES.items():
            figure = task(found, "reserved_bytes", "handoff", count, size)
            assert figure.kind == "sampled"
            assert (figure.value or 0) >= count * segment
            assert (figure.value or 0) % segment == 0


@needs_torch
def test_private_pools_hold_everything_until_they_are_deleted(measured: dict[str, Any]) -> None:
    found, _ = run(measured, "torch-native")
    blocks = POOL_BLOCKS * POOL_BLOCK_BYTES

    def held(pool: str, stage: str) -> float | None:
        return found["held_bytes", key({"pool": pool, "stage": stage})].value

    assert [held("mempool", s) for s in ("live", "dropped", "emptied")] == [blocks] * 3
    assert held("mempool", "released") == 0
    # A capture adds the state of its random numbers: one small segment.
    assert held("graph", "live") in (blocks, blocks + 2 * MIB)
    assert held("graph", "emptied") in (blocks, blocks + 2 * MIB)
    assert held("graph", "released") in (0, 2 * MIB)


@needs_torch
def test_driver_pools_have_no_private_pools(measured: dict[str, Any]) -> None:
    found, _ = run(measured, "torch-async")
    figure = found["held_bytes", key({"pool": "graph", "stage": "live"})]
    assert figure.reason is not None
    assert "private pools" in figure.reason


@needs_torch
def test_card_too_small_for_the_tasks_is_a_reason_not_a_crash() -> None:
    outcome = in_child("streams", "torch-native", memory="1200MiB", repeats=1)
    found = cells(outcome["figures"])
    assert set(found) == names()
    assert task(found, "reserved_bytes", "private", 1, MIB).value == 2 * MIB
    large = task(found, "reserved_bytes", "private", 16, 32 * MIB)
    assert large.value is not None or "Memory" in (large.reason or "")


def test_threads_are_measured_with_base_allocators_only() -> None:
    experiment, known = Streams(), list(registry().values())
    for name, threads in (("torch-native", True), ("torch-split64", False)):
        (request,) = experiment.requests(name, PROFILES["full"], known)
        assert request.parameters["threads"] is threads
