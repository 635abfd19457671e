"""Recorded outcome and replayed outcome, all of them against each other: what the answer says."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.recording.importers.recording import FailedRequest, Recording
from allocmark.replays import page, recorded_run, table
from allocmark.replays.agreement import NO_CAUSE
from allocmark.replays.answer import ReplayAnswer
from allocmark.replays.command import FORMATS
from allocmark.replays.process_limit import of as limit_of
from allocmark.replays.recorded_run import Outcome
from allocmark.replays.summary import recommended, summary
from allocmark.system.units import GIB, MIB
from allocmark.workloads.event_trace import Trace
from tests.support.answers import answer, whole

_EVENT = 2
_OTHER = "torch-expandable"
LINE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
RECORDED = ("failed", "retried", "fine", "no history", "limit")
REPLAYED: Mapping[str, Mapping[str, float]] = {
    "fails": {"completes": 0, "failed_event": _EVENT, "capacity_retries": 1},
    "fails earlier": {"completes": 0, "failed_event": _EVENT - 1, "capacity_retries": 1},
    "fails later": {"completes": 0, "failed_event": _EVENT + 1, "capacity_retries": 1},
    "retries": {"completes": 1, "capacity_retries": 2},
    "fits": {"completes": 1, "capacity_retries": 0},
}
_OFF = ("fails earlier", "fails later")
CONTRADICTIONS = {
    *(("failed", how) for how in (*_OFF, "retries", "fits")),
    *(("limit", how) for how in (*_OFF, "retries", "fits")),
    *(("retried", how) for how in ("fails", *_OFF, "fits")),
    *(("fine", how) for how in ("fails", *_OFF, "retries")),
}


def recording(how: str, **more: object) -> Recording:
    """Return a recording of five allocations on 4 GiB that ended so."""
    count = np.arange(5)
    zero = np.zeros(5, np.uint8)
    trace = Trace("t", zero, count, np.full(5, MIB), zero)
    facts: dict[str, object] = {
        "total_bytes": 4 * GIB,
        "reserved_bytes": GIB,
        "free_bytes": 3 * GIB,
    }
    failed = FailedRequest(_EVENT, 2 * GIB, GIB // 2, GIB * 7 // 2)
    if how == "limit":
        facts["memory_fraction"] = 0.25
        failed = replace(failed, device_free_bytes=3 * GIB, reserved_bytes=GIB)
    given = Recording(
        "s",
        0,
        trace,
        setting="",
        counted={"retries": {"fine": 0}.get(how, 1), "peak_reserved_bytes": GIB},
        failed=[failed] if how in ("failed", "limit") else [],
        has_history=how != "no history",
        environment=facts,
    )
    return replace(given, **more)  # type: ignore[arg-type]


def answered(how: str, replayed: str, **more: object) -> ReplayAnswer:
    found = recording(how, **more)
    figures = REPLAYED[replayed]
    fits = bool(figures["completes"])
    own = answer("torch-native*", 9 if not fits else 3, 2, fits, int(figures["capacity_retries"]))
    other = answer(_OTHER, 2, 1, True)
    run = recorded_run.of(found)
    limit = limit_of(found, 4 * GIB)
    own = replace(own, in_recorded_room=figures)
    return whole(own, other, recording=found, run=run, limit=limit)


MATRIX = list(itertools.product(RECORDED, REPLAYED))


@pytest.mark.parametrize(("recorded", "replayed"), MATRIX)
def test_where_outcomes_differ_the_first_line_says_so_and_nothing_is_recommended(
    recorded: str, replayed: str
) -> None:
    found = answered(recorded, replayed)
    contradicts = (recorded, replayed) in CONTRADICTIONS
    assert bool(found.agreement.contradiction) is contradicts
    first = summary(found)
    plain = json.loads(FORMATS["json"](found))
    told = table.text(found, 2000)
    shown = page.render(found)
    assert told.splitlines()[0].lower() == f"{first}.".lower()
    assert plain["answer"] == first
    # On the page it stands above the table, and nothing above it names a setting.
    assert shown.lower().index(first.split("'")[0][:60].lower()) < shown.index("<table")
    if contradicts:
        assert first.startswith("the recorded run ")
        assert "in the same memory" in first and "no setting is recommended" in first
        assert LINE not in first
        assert recommended(found) is None and plain["recommended"] is None
        assert plain["contradiction"] == {
            "what": found.agreement.contradiction,
            "cause": found.agreement.cause,
        }
        assert (found.agreement.cause == NO_CAUSE) is (recorded != "limit")
    else:
        assert plain["contradiction"] is None
        assert "recommended" not in first
        assert (recommended(found) == LINE) is (recorded != "no history")


@pytest.mark.parametrize("replayed", REPLAYED)
def test_without_a_history_nothing_is_compared(replayed: str) -> None:
    found = answered("no history", replayed)
    assert found.agreement.text.startswith("the recording has no history")
    assert "%" not in found.agreement.text
    assert "at least" in summary(found)


@pytest.mark.parametrize(("recorded", "replayed"), sorted(CONTRADICTIONS))
def test_the_cause_is_what_the_recording_tells(recorded: str, replayed: str) -> None:
    found = answered(recorded, replayed, causes=["a dog ate it", "a cat, too"])
    assert found.agreement.cause.endswith("a dog ate it; a cat, too")
    assert ("a limit of the process refused it" in found.agreement.cause) is (recorded == "limit")
    assert "a dog ate it" in summary(found)


@pytest.mark.parametrize("replayed", REPLAYED)
def test_a_block_that_came_back_inside_the_failing_call_is_named(replayed: str) -> None:
    late = FailedRequest(_EVENT, 2 * GIB, GIB // 2, GIB * 7 // 2, returned_bytes=2 * GIB)
    found = answered("failed", replayed, failed=[late])
    assert "2 GiB that were freed and waited for another stream came back" in summary(found)
    assert "inside the failing call" in summary(found)


@pytest.mark.parametrize("recorded", ["failed", "retried"])
def test_a_run_that_was_short_is_only_held_against_one_in_as_much_memory(recorded: str) -> None:
    unknown = [FailedRequest(_EVENT, 2 * GIB, 0)] if recorded == "failed" else []
    found = answered(recorded, "fits", environment={}, failed=unknown)
    assert "nothing to hold a replay against" in found.agreement.text
    assert "%" not in found.agreement.text and not found.agreement.contradiction


def test_the_setting_that_is_not_known_is_not_held_against_anything() -> None:
    found = recording("failed")
    other = answer(_OTHER, 2, 1, True)
    text = whole(other, recording=found, run=recorded_run.of(found)).agreement.text
    assert text.startswith("the setting of the recorded run is not known")


def test_a_program_that_went_on_after_its_failure_is_compared_up_to_it() -> None:
    text = answered("failed", "fails").agreement.text
    assert "it fails at the recorded event" in text and "peak reserved" not in text
    trace = recording("failed").trace
    ended = replace(trace, op=np.array([0, 0, 0, 1, 1], np.uint8))
    found = answered("failed", "fails", trace=ended)
    assert "retries equal (1)" in found.agreement.text


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 36), st.integers(0, 1 << 40))
def test_the_room_of_a_failure_is_what_was_reserved_and_free(
    reserved: int, size: int, free: int
) -> None:
    failed = FailedRequest(_EVENT, size, free, reserved)
    run = recorded_run.of(recording("failed", failed=[failed], environment={}))
    assert run.outcome is Outcome.FAILED and run.room is not None
    assert run.room.capacity_bytes == reserved + free
    # A request that the driver had room for was refused by something else.
    found = recording("failed", failed=[failed], environment={}, counted={})
    limit = limit_of(found, None)
    if free <= max(size, 20 * MIB):
        assert limit is None
    if free >= size + 40 * MIB:
        assert limit is not None
    if limit is not None and limit.at_most_bytes is not None:
        assert reserved <= limit.allowed_bytes <= limit.at_most_bytes


@given(st.floats(0.01, 0.99), st.integers(1, 1 << 12))
def test_a_fraction_is_of_the_gpu_that_is_answered_for(fraction: float, gib: int) -> None:
    facts = {"total_bytes": 8 * GIB, "memory_fraction": fraction}
    found = recording("fine", environment=facts)
    for card in (None, gib * GIB):
        limit = limit_of(found, card)
        assert limit is not None
        assert limit.allowed_bytes == int(fraction * (card or 8 * GIB))
    assert limit_of(recording("fine", environment=facts | {"memory_fraction": 1.0}), None) is None
    by_text = recording("fine", environment={"total_bytes": 8 * GIB})
    by_text = replace(by_text, setting=f"per_process_memory_fraction:{fraction}")
    limit = limit_of(by_text, None)
    assert limit is not None and limit.allowed_bytes == int(fraction * 8 * GIB)


def test_the_oom_text_alone_tells_the_limit() -> None:
    text = "8.00 GiB of which 5.53 GiB is free. this process has 2.46 GiB in use. 2.00 GiB allowed;"
    found = recording("failed", environment={"oom_text": text})
    limit = limit_of(found, None)
    assert limit is not None and limit.allowed_bytes == 2 * GIB


@pytest.mark.parametrize("fits", [True, False])
def test_a_limit_is_the_first_thing_that_is_said(fits: bool) -> None:
    found = answered("limit", "fails")
    found = replace(
        found,
        settings=[
            answer("torch-native*", 3, 2, False),
            answer(_OTHER, 2, 1, fits),
        ][:: -1 if fits else 1],
    )
    assert found.limited
    text = summary(found)
    assert text.startswith(
        "a limit of the process refused the request, not the GPU (3 GiB of it were free): "
        "it may reserve 1 GiB (a fraction of 0.25 of 4 GiB"
    )
    if fits:
        assert f"within it {LINE} fits this limit" in text
    else:
        assert "without a limit it needs a card with" in text and recommended(found) is None
