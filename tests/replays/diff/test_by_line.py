"""Who holds more, by call stack: the same place of two versions, and nothing that is lost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.recording.importers.recording import Recording
from allocmark.replays.diff import own_files
from allocmark.replays.diff.by_line import Held, align, at_peak
from tests.support.emulation import alloc, free, trace

TORCH = "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py:134 forward"


def held(size: int, *stack: str) -> Held:
    return Held(stack, 1, size)


def changes(before: Sequence[Held], after: Sequence[Held]) -> list[tuple[int, tuple[str, ...]]]:
    return [(one.change_bytes, tuple(one.stack)) for one in align(before, after)]


def test_a_line_that_moved_in_another_checkout_is_the_same_place() -> None:
    before = [held(100, TORCH, "/a/job/net/model.py:10 forward", "/a/job/train.py:3 <module>")]
    after = [held(160, TORCH, "/ci/x/net/model.py:17 forward", "/ci/x/train.py:5 <module>")]
    assert changes(before, after) == [(60, tuple(after[0].stack))]


def test_equal_lines_go_together_before_moved_ones() -> None:
    before = [held(10, "/a/t.py:5 step"), held(20, "/a/t.py:9 step")]
    after = [held(1, "/a/t.py:4 step"), held(10, "/a/t.py:5 step"), held(30, "/a/t.py:12 step")]
    found = {tuple(one.stack): one for one in align(before, after)}
    assert found["/a/t.py:5 step",].change_bytes == 0
    # What is left goes together in the order of its lines; the rest is new.
    assert found["/a/t.py:4 step",].before == before[1]
    assert found["/a/t.py:12 step",].before is None


def test_what_is_gone_or_new_is_named_and_the_largest_is_first() -> None:
    before = [held(50, "/a/t.py:5 load"), held(7, "/a/t.py:7 kept")]
    after = [held(90, "/a/t.py:6 build"), held(7, "/a/t.py:7 kept")]
    assert changes(before, after) == [
        (90, ("/a/t.py:6 build",)),
        (-50, ("/a/t.py:5 load",)),
        (0, ("/a/t.py:7 kept",)),
    ]


def test_files_of_one_name_are_told_apart_by_their_folders() -> None:
    assert own_files.matched(
        ["/a/net/model.py", "/a/data/model.py", "/a/old.py"],
        ["/b/data/model.py", "/b/net/model.py", "/b/new.py"],
    ) == {"/a/net/model.py": "/b/net/model.py", "/a/data/model.py": "/b/data/model.py"}


@pytest.mark.parametrize(
    ("stack", "text"),
    [
        ((TORCH, "/a/net/m.py:3 f"), "net/m.py:3 f (torch/nn/modules/linear.py:134 forward)"),
        (("/a/train.py:9 <module>",), "train.py:9 <module>"),
        (("torch::mul", "autograd::MulBackward0"), "autograd::MulBackward0"),
        ((), "without a line of Python"),
    ],
)
def test_a_place_is_named_by_the_programs_own_line(stack: Sequence[str], text: str) -> None:
    assert own_files.shown(stack, ["/a/train.py", "/a/net/m.py"]) == text


_STACKS = st.lists(
    st.sampled_from(
        [f"/{root}/{file}.py:{line} f" for root in "ab" for file in "xy" for line in (1, 2)]
    ),
    max_size=2,
)
_HELD = st.lists(
    st.builds(Held, _STACKS.map(tuple), st.integers(1, 9), st.integers(1, 1 << 40)),
    unique_by=lambda one: tuple(one.stack),
)


@given(_HELD, _HELD)
def test_all_changes_add_up(before: list[Held], after: list[Held]) -> None:
    found = align(before, after)
    total = sum(one.size_bytes for one in after) - sum(one.size_bytes for one in before)
    assert sum(one.change_bytes for one in found) == total
    assert sorted(map(id, after)) == sorted(id(one.after) for one in found if one.after)
    assert sorted(map(id, before)) == sorted(id(one.before) for one in found if one.before)


def test_what_is_alive_at_the_peak_adds_up_to_it() -> None:
    events = trace(
        alloc(0, 100), alloc(1, 50), free(0), alloc(2, 70), alloc(3, 30), free(1), free(3)
    )
    recording = Recording(
        "s",
        0,
        events,
        stacks=[["a.py:1 f"], ["a.py:2 f"]],
        stack_of_block=np.array([0, 0, 1, 0], np.int32),
    )
    peak = at_peak(recording)
    assert (peak.event, peak.size_bytes) == (1, 150)
    assert [(one.stack, one.size_bytes, one.blocks) for one in peak.held] == [
        (("a.py:1 f",), 150, 2)
    ]
