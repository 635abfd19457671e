"""A replay up to one event, and the search for the smallest capacity of one recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from allocmark.experiments.recording.experiment import load_events, save_events
from allocmark.experiments.shared.ballast import STEP_BYTES
from allocmark.experiments.shared.capacity_bracket import narrow
from allocmark.experiments.shared.capacity_search import finest_resolution
from allocmark.experiments.shared.event_replay import Script, replay
from tests.support.emulation import CountingAllocator, alloc, free, trace

EVENTS = (alloc(0, 100), alloc(1, 200), free(0), alloc(2, 50), free(2))


def test_it_stops_after_the_event_and_shows_what_is_held() -> None:
    allocator, seen = CountingAllocator(), list[Sequence[int | None]]()
    script = Script.of(trace(*EVENTS))
    done = replay(script, allocator, last_event=2, at_end=lambda _, held: seen.append(list(held)))
    assert (done.events_done, done.peak_requested_bytes, done.completed) == (3, 300, True)
    (held,) = seen
    assert [address is not None for address in held] == [False, True, False]
    assert allocator.live == {}


def test_a_failure_shows_what_was_held_then() -> None:
    allocator, failed = CountingAllocator(250), list[Sequence[int | None]]()
    script = Script.of(trace(*EVENTS))
    done = replay(script, allocator, last_event=4, at_end=lambda _, held: failed.append(list(held)))
    assert (done.failed_event, done.failed_request_bytes) == (1, 200)
    assert [address is not None for address in failed[0]] == [True, False, False]
    assert allocator.live == {}


def test_points_are_observed_on_the_way() -> None:
    seen: list[int] = []
    script = Script.of(trace(*EVENTS))
    replay(script, CountingAllocator(), seen.append, [0, 2, 3, 4], last_event=3)
    assert seen == [0, 2, 3]


def test_events_survive_their_file(tmp_path: Path) -> None:
    path = tmp_path / "events.npz"
    save_events(path, trace(*EVENTS))
    again = load_events(path)
    assert again.op.tolist() == [0, 0, 1, 0, 1]
    assert again.size.tolist() == [100, 200, 0, 50, 0]


@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(0, 200))
def test_the_bracket_holds_the_answer(live: int, above: int, more: int) -> None:
    """Whatever the answer is, it lies between the two ends, and they are close."""
    low, need = (live - 1) * STEP_BYTES, (live + above) * STEP_BYTES
    held = need + more * STEP_BYTES
    found = narrow(lambda c: c >= need, live * STEP_BYTES, low, held, seconds=1e9)
    assert found.fails_bytes < need <= found.serves_bytes
    assert found.settled
    aim = finest_resolution(live * STEP_BYTES)
    assert found.serves_bytes - found.fails_bytes <= aim or found.runs == 0


def test_without_time_it_says_that_it_is_not_settled() -> None:
    found = narrow(lambda c: True, STEP_BYTES, 0, 1000 * STEP_BYTES, seconds=0)
    assert (found.runs, found.settled) == (1, False)
    assert found.serves_bytes < 1000 * STEP_BYTES
