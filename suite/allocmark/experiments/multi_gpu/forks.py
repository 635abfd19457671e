"""Programs in forks, one each: what they report is sent, and what they cannot is a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.multi_gpu.devices import Cell, Shown, missing
from allocmark.experiments.shared.forked import in_fork

_LIMIT_S = 60.0


def each_in_a_fork(
    name: str,
    program: Callable[[], Any],
    send: Callable[[Any], None],
    expected: Iterable[Cell],
    recorder: Recorder,
) -> None:
    """Run one program, then send what it returns, or its reason in every cell."""
    with recorder.stage(name):
        try:
            told = in_fork(program, _LIMIT_S)
        except Exception as error:
            missing(expected, in_words(error), recorder)
            raise
        send(told)


def shown_of(told: Iterable[Mapping[str, Any]]) -> list[Shown]:
    """Return the GPUs of a reading that came out of a fork."""
    return [Shown(**one) for one in told]
