from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.allocators.base import Capability
from allocmark.experiments.shared.event_replay import Script, replay, spaced
from allocmark.workloads.event_trace import Op, Trace
from tests.support import budgets
from tests.support.emulation import CountingAllocator, alloc, emulated, free, needs_torch, trace


def test_runs_every_event_in_order_and_frees_what_is_left() -> None:
    allocator = CountingAllocator()
    result = replay(trace(alloc(0, 100), alloc(1, 50, 2), free(0), alloc(2, 7)), allocator)
    assert result.completed
    assert (result.events_done, result.peak_requested_bytes) == (4, 150)
    assert allocator.calls[:4] == [
        ("alloc", 100, 0),
        ("alloc", 50, 2),
        ("free", 100, 0),
        ("alloc", 7, 0),
    ]
    assert allocator.calls[4:] == [("free", 50, 2), ("free", 7, 0)]
    assert allocator.live == {}


def test_running_out_of_memory_is_a_result_and_frees_everything() -> None:
    allocator = CountingAllocator(capacity=120)
    held: list[int] = []
    result = replay(
        trace(alloc(0, 100), free(0), alloc(1, 90), alloc(2, 31), free(1), free(2)),
        allocator,
        at_end=lambda *_: held.append(sum(allocator.live.values())),
    )
    assert not result.completed
    assert (result.failed_event, result.failed_request_bytes) == (3, 31)
    assert (result.events_done, result.peak_requested_bytes) == (3, 100)
    assert result.error == "out of memory, says the test"
    assert held == [90]
    assert allocator.live == {}


def test_another_error_is_passed_on_after_freeing() -> None:
    allocator = CountingAllocator()

    def look(event: int) -> None:
        raise ValueError("the observer's own")

    with pytest.raises(ValueError, match="own"):
        replay(trace(alloc(0, 1), alloc(1, 1)), allocator, look, [0])
    assert allocator.live == {}


def test_an_empty_trace_completes() -> None:
    result = replay(trace(), CountingAllocator())
    assert result.completed
    assert (result.events_done, result.peak_requested_bytes) == (0, 0)


def test_observes_after_the_named_events_only() -> None:
    allocator = CountingAllocator()
    seen: list[tuple[int, int]] = []
    replay(
        trace(alloc(0, 1), alloc(1, 2), alloc(2, 4), free(0)),
        allocator,
        lambda event: seen.append((event, sum(allocator.live.values()))),
        [1, 3],
    )
    assert seen == [(1, 3), (3, 6)]


def test_shared_blocks_are_allocated_as_such() -> None:
    allocator = CountingAllocator()
    allocator.record_stream = lambda block, stream: None  # type: ignore[method-assign]
    replay(trace(alloc(0, 1), alloc(1, 2), (Op.RECORD_STREAM, 1, 0, 1), free(1)), allocator)
    assert [name for name, _, _ in allocator.calls][:2] == ["alloc", "alloc_shared"]


def test_names_the_fullest_events() -> None:
    script = Script.of(trace(alloc(0, 5), alloc(1, 9), free(0), alloc(2, 5), free(1)))
    assert script.peak_event == 1
    assert script.fullest_events(3) == [1, 3, 2]
    assert script.last_allocation == 3
    assert Script.of(trace()).last_allocation == -1


def test_trim_does_nothing_where_nothing_is_cached() -> None:
    assert replay(trace((Op.TRIM, -1, 0)), CountingAllocator()).completed


def test_says_what_an_allocator_cannot_do() -> None:
    plain, several = CountingAllocator(), Script.of(trace(alloc(0, 1, 1)))
    assert "knows no streams" in (several.cannot_run(plain) or "")
    recording = Script.of(trace(alloc(0, 1), (Op.RECORD_STREAM, 0, 0, 0)))
    assert "record_stream" in (recording.cannot_run(plain) or "")
    plain.capabilities = frozenset({Capability.CACHE})
    assert "give its cache back" in (Script.of(trace((Op.TRIM, -1, 0))).cannot_run(plain) or "")
    assert Script.of(trace(alloc(0, 1))).cannot_run(plain) is None


@given(st.integers(1, 5000), st.integers(1, 600), st.data())
def test_points_are_ascending_within_the_trace_and_few(
    events: int, points: int, data: st.DataObject
) -> None:
    also = data.draw(st.integers(0, events - 1))
    chosen = spaced(events, points, [also])
    assert chosen == sorted(set(chosen))
    assert also in chosen and chosen[-1] in (events - 1, also)
    assert chosen[0] >= 0 and len(chosen) <= points + 1


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    events: list[tuple[Op, int, int, int]] = []
    live: list[int] = []
    blocks = 0
    for wants_alloc in draw(st.lists(st.booleans(), max_size=60)):
        if wants_alloc or not live:
            events.append(alloc(blocks, draw(st.integers(1, 1000)), draw(st.integers(0, 2))))
            live.append(blocks)
            blocks += 1
        else:
            events.append(free(live.pop(draw(st.integers(0, len(live) - 1)))))
    return trace(*events)


@given(traces(), st.integers(0, 20_000))
def test_peak_and_failure_follow_from_the_trace(work: Trace, capacity: int) -> None:
    allocator = CountingAllocator(capacity)
    result = replay(work, allocator)
    assert allocator.live == {}
    live = work.live_bytes.tolist()
    first = next((i for i, held in enumerate(live) if held > capacity), None)
    assert result.failed_event == first
    assert result.peak_requested_bytes == max(live[:first], default=0)


@needs_torch
def test_streams_wait_and_defer_on_torch() -> None:
    told = emulated(
        "1GiB",
        """
from allocmark.experiments.shared.event_replay import replay
a = registry()["torch-native"]
a.open(0)
events = [alloc(0, 4 * MIB), (Op.HANDOFF, 0, 0, 1), (Op.RECORD_STREAM, 0, 0, 1), free(0)]
r = replay(trace(*events, alloc(1, 4 * MIB, 1), (Op.TRIM, -1, 0), free(1, 1)), a)
a.restart()
print(json.dumps([r.completed, r.peak_requested_bytes, a.stats().reserved_bytes]))
""",
    )
    assert told == [True, 4 << 20, 0]


@budgets.budget
@needs_torch
def test_is_fast_enough_over_torch() -> None:
    per_second = emulated(
        "1GiB",
        """
from allocmark.experiments.shared.event_replay import Script, replay
a = registry()["torch-native"]
a.open(0)
pairs = [e for b in range(30_000) for e in (alloc(b, 4096 + b % 7 * 512), free(b))]
s = Script.of(trace(*pairs))
print(json.dumps(max(len(s) / replay(s, a).seconds for _ in range(5))))
""",
    )
    budgets.note("replay of 300,000 events", 300_000 / per_second, 1)
