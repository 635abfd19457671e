"""The processes of a replay on a GPU: one at a time, in order, and stopped in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from allocmark.experiments.core.launcher import Start
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.replays import children
from allocmark.replays.settings import Setting, choose

NAMES = ["torch-native", "torch-split64", "torch-expandable"]


def ask(setting: Setting, variables: Mapping[str, str]) -> Request:
    assert variables == {}
    return Request("replay_recording", setting.name, 1.0, {}, {}, "torch")


def run(told: list[tuple[str, int, int]]) -> list[ChildOutcome]:
    done = lambda *words: told.append(words)  # noqa: E731
    return children.run(choose(NAMES, None), ask, 0, emulated=False, jobs=4, done=done)


def test_in_order_with_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    def launch_all(requests: Sequence[Request], start: Start) -> Iterator[ChildOutcome]:
        yield from (ChildOutcome(request, 0.0) for request in requests)

    monkeypatch.setattr(children, "launch_all", launch_all)
    told: list[tuple[str, int, int]] = []
    assert [outcome.request.subject for outcome in run(told)] == NAMES
    assert told == [(name, place, 3) for place, name in enumerate(NAMES, 1)]


@pytest.mark.parametrize("outside", [False, True])
def test_ctrl_c_ends_every_process_and_says_how_far_it_was(
    outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = []

    def done(*_words: object) -> None:
        if outside:
            raise KeyboardInterrupt

    def launch_all(requests: Sequence[Request], start: Start) -> Iterator[ChildOutcome]:
        try:
            yield ChildOutcome(requests[0], 0.0)
            raise KeyboardInterrupt
        finally:
            closed.append(True)

    monkeypatch.setattr(children, "launch_all", launch_all)
    with pytest.raises(children.ReplayStoppedError, match="stopped after 1 of 3 settings") as error:
        children.run(choose(NAMES, None), ask, 0, emulated=False, jobs=4, done=done)
    assert error.value.exit_code == 3
    assert closed == [True]
