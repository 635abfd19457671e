"""Answers without a replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from allocmark.recording.importers.recording import Recording
from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.replays.driver_time import DriverTime
from allocmark.replays.non_allocator_memory import Term
from allocmark.replays.process_limit import ProcessLimit
from allocmark.replays.ranking import ranked
from allocmark.replays.recorded_run import Outcome, RecordedRun
from allocmark.replays.settings import choose
from allocmark.system.units import GIB
from allocmark.workloads.event_trace import Trace


def answer(
    name: str, card_gib: float | None, seconds: float, fits: bool | None = None, retries: int = 0
) -> SettingAnswer:
    """Return one setting's answer; a name with an asterisk is the recorded one."""
    recorded = name.endswith("*")
    setting = replace(choose([name.rstrip("*")], None)[0], recorded=recorded)
    card = None if card_gib is None else int(card_gib * GIB)
    figures = {} if fits is None else {"completes": int(fits), "capacity_retries": retries}
    return SettingAnswer(setting, figures, {}, DriverTime(seconds, 1, "test"), card, card)


def whole(
    *settings: SettingAnswer,
    card: bool = True,
    recording: Recording | None = None,
    run: RecordedRun = RecordedRun(Outcome.FINE),  # noqa: B008 - it is frozen
    limit: ProcessLimit | None = None,
) -> ReplayAnswer:
    """Return the answer of a run recorded elsewhere, on a card of 4 GiB or none."""
    none = np.zeros(0, np.int64)
    trace = Trace("t", none.astype(np.uint8), none, none, none.astype(np.uint8))
    term = Term(4 * GIB, "test")
    order = ranked(settings, of_torch=True)
    return ReplayAnswer(
        recording or Recording("s", 0, trace),
        order,
        outside=replace(term, value_bytes=0),
        card=term if card else None,
        run=run,
        limit=limit,
        where="",
        emulated=True,
        doubts=(),
        seconds=0,
    )
