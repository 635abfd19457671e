"""Plans the replays, runs each in a process of its own, and ranks what they found."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from allocmark.emulator.launcher import real_driver
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.experiments.recording.experiment import save_events
from allocmark.machine.stack import installed
from allocmark.recording.importers.recording import BlockMap, Recording
from allocmark.replays import (
    children,
    driver_pool,
    driver_time,
    non_allocator_memory,
    process_limit,
    rank_notes,
    recorded_run,
    settings,
)
from allocmark.replays.answer import FIGURES, ReplayAnswer, SettingAnswer
from allocmark.replays.non_allocator_memory import Term, in_words
from allocmark.replays.ranking import ranked
from allocmark.replays.recorded_run import RecordedRun, Room
from allocmark.replays.settings import Setting
from allocmark.schema.figure import Series
from allocmark.schema.metrics import recording as names
from allocmark.schema.metrics.fragmentation import MEMORY
from allocmark.schema.notes import PEAK_EVENT
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import format_bytes

_SEARCH_S = 4.0
"""What one setting may take before the search for its smallest capacity ends."""
_LIMIT_S = 60.0
_SENTENCES = 2
_LIMIT_FOR_EACH_EVENT_S = 60e-6
_LIMITED = ("peak_reserved_bytes", "retries", "driver_allocs", "driver_frees")
"""What a setting with a memory fraction of its own is shown with as it is in that fraction."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What is wanted; None for what is left open."""

    settings: Sequence[str] = ()
    capacity_bytes: int | None = None
    outside_bytes: int | None = None
    emulated: bool = False
    search: bool = True
    """Whether the smallest capacity is searched; without, only the runs that are asked for."""
    draw_all: bool = False
    """Whether memory over the events is taken under every setting, not the recorded one alone."""
    jobs: int | None = None
    """Emulated processes at a time, by default one for each core; on a GPU it is always one."""


def replay(
    recording: Recording,
    options: ReplayOptions,
    done: children.Done = lambda name, ended, count: None,
) -> ReplayAnswer:
    """Run a recording under all settings asked for; `done` hears of each that has ended.

    Raises `AllocmarkError` for a setting that is not known, a card that has no room at all, and at
    Ctrl-C.
    """
    begin = time.monotonic()
    chosen = settings.choose(options.settings, recording.setting)
    room = recorded_run.room_bytes(recording)
    around = non_allocator_memory.outside_bytes(options.outside_bytes, recording.environment, room)
    card = non_allocator_memory.card_bytes(
        options.capacity_bytes, recording.environment, around, room
    )
    limit = process_limit.of(recording, None if card is None else card.value_bytes)
    capacity = None if card is None else card.value_bytes - around.value_bytes
    if capacity is not None and capacity <= 0:
        raise AllocmarkError(
            f"a card of {in_words(card or around)} has no room for the "
            f"{in_words(around)} outside the allocator: give --outside or a larger card"
        )
    others = non_allocator_memory.others_bytes(recording.environment)
    emulated = options.emulated or real_driver() is None  # Where no GPU is here.
    live_bytes = recording.trace.peak_requested_bytes
    jobs = options.jobs or os.cpu_count() or 1
    run = recorded_run.of(recording)
    # Where that is the capacity answered for, one run serves both.
    asked = None if capacity is None else Room(capacity, limit.allowed_bytes if limit else None)
    recorded = run.room if run.was_short and run.room != asked else None
    # The recorded setting is the one that is explained.
    pictured = next((setting for setting in chosen if setting.recorded), chosen[0])
    gpu = str(recording.environment.get("gpu", ""))

    with tempfile.TemporaryDirectory(prefix="allocmark-") as folder:
        events = Path(folder, "events.npz")
        save_events(events, recording.trace)

        def ask(setting: Setting, variables: Mapping[str, str]) -> Request:
            own = setting.fraction
            limited = limit is not None and own is None and capacity is not None
            allowed = limit.allowed_bytes if limit and limited else None
            parameters = {
                "events": str(events),
                "conf": setting.conf,
                "capacity_bytes": capacity,
                "allowed_bytes": allowed,
                "fraction": own,
                "outside_bytes": around.value_bytes,
                "recorded_room": (recorded.capacity_bytes, recorded.allowed_bytes)
                if recorded and setting.recorded
                else None,
                "seconds": _SEARCH_S if options.search else None,
                "picture": options.draw_all or setting is pictured,
            }
            return Request(
                "replay_recording",
                setting.name,
                limit_s=_LIMIT_S + _LIMIT_FOR_EACH_EVENT_S * len(recording.trace),
                parameters=parameters,
                environment={**setting.allocator.environment, **variables},
                framework=setting.allocator.framework,
            )

        outcomes = children.run(chosen, ask, live_bytes, emulated, jobs, done)
        answers = [
            _answer(setting, outcome, around, gpu, emulated)
            for setting, outcome in zip(chosen, outcomes, strict=True)
        ]
    answers = [
        replace(
            one,
            in_recorded_room=_like(one, run, asked),
            pools_joined=bool(recording.trace.pools) and not one.setting.has_private_pools,
        )
        for one in answers
    ]
    simulated = "the emulated driver (bytes and decisions are real, times are not)"
    return ReplayAnswer(
        recording=recording,
        settings=ranked(answers, recording.setting is not None),
        outside=around,
        card=card,
        run=run,
        limit=limit,
        where=simulated if emulated else "this machine's GPU",
        emulated=emulated,
        doubts=[*recording.doubts, *_doubts(recording, chosen, emulated, others)],
        seconds=time.monotonic() - begin,
    )


def _like(own: SettingAnswer, run: RecordedRun, asked: Room | None) -> Mapping[str, float]:
    """Return the figures that are held against the recorded run: in its memory, or of as much.

    Where that was never short, a replay without a limit is its like.
    """
    if not own.setting.recorded or own.in_recorded_room:
        return own.in_recorded_room
    names = ("completes", "failed_event", *(name for name in FIGURES if "capacity_" in name))
    if asked is not None and run.room == asked:
        return {name: own.figures[name] for name in names if name in own.figures}
    if run.was_short or "peak_reserved_bytes" not in own.figures:
        return {}
    plain = {name: own.figures.get(name.removeprefix("capacity_")) for name in names}
    return {"completes": 1} | {name: v for name, v in plain.items() if v is not None}


def _answer(
    setting: Setting, outcome: ChildOutcome, around: Term, gpu: str, emulated: bool
) -> SettingAnswer:
    recorded = [f for f in outcome.figures if f.axes.get(names.ROOM) == names.RECORDED_ROOM]
    found = {figure.metric: figure for figure in outcome.figures if figure not in recorded}
    values = {n: f.value for n, f in found.items() if n in FIGURES and f.value is not None}
    reasons = {n: f.reason for n, f in found.items() if n in FIGURES and f.reason is not None}
    for failure in outcome.failures:
        if failure.stage == names.SEARCH:
            reasons["smallest_capacity_bytes"] = failure.reason
        elif failure.stage == names.WITHIN:
            reasons["completes"] = failure.reason
        elif failure.stage == names.RECORDED:
            reasons["in_recorded_room"] = failure.reason
        else:  # Between the stages: no ballast, say.
            for name in ("completes", "smallest_capacity_bytes"):
                if name not in values:
                    reasons.setdefault(name, failure.reason)
    peak = values.get("peak_reserved_bytes")
    least = values.get("smallest_capacity_bytes", peak)
    reason = ""
    if peak is None:
        failures = [failure.reason for failure in outcome.failures]
        reason = failures[0] if failures else reasons.get("peak_reserved_bytes", "nothing was told")
        # torch's own words go on with what its user should do.
        reason = ". ".join(reason.split(". ")[:_SENTENCES])
        if reason.startswith("ran out of memory"):
            reason += "; the emulated driver has 1 TiB (--emulated)" * (not emulated)
    if names.DRIVER_CALLS not in {series.name for series in outcome.series}:
        reasons["driver_seconds"] = f"{setting.name} does not tell the sizes of its driver calls"
    series = {curve.name: curve.columns for curve in outcome.series}
    calls = series.get(names.CAPACITY_DRIVER_CALLS, series.get(names.DRIVER_CALLS))
    no_retry = None if peak is None else int(peak) + around.value_bytes
    if setting.fraction is not None:
        if no_retry is not None and peak is not None and setting.fraction > 0:
            no_retry = max(no_retry, math.ceil(peak / setting.fraction))
        # Its own limit is part of the setting: without it nobody would run it.
        values |= {n: values[f"capacity_{n}"] for n in _LIMITED if f"capacity_{n}" in values}
        if requested := values.get("peak_requested_bytes"):
            held = values.get("peak_reserved_bytes", 0)
            values["waste_ratio"] = max(0.0, 1 - requested / held) if held else 0.0
    return SettingAnswer(
        setting,
        figures=values,
        reasons=reasons,
        driver_time=driver_time.estimate(calls, gpu) if calls else None,
        smallest_card_bytes=None if least is None else int(least) + around.value_bytes,
        no_retry_card_bytes=no_retry,
        settled="smallest_capacity_bytes" in values and not found["smallest_capacity_bytes"].flags,
        reason=reason,
        error=str(outcome.notes.get("error", "")),
        in_force=str(outcome.notes.get("setting", "")),
        seconds=round(outcome.seconds, 3),
        curve=series.get(names.CAPACITY_MEMORY, series.get(MEMORY, {})),
        maps=_maps(outcome),
        over_time=series.get(names.ADDRESS_MAP, {}),
        tracks=series.get(names.MEMORY_TRACKS, {}),
        cells=series.get(names.ADDRESS_CELLS, {}).get("kind", ()),
        in_recorded_room={f.metric: f.value for f in recorded if f.value is not None},
        margin=driver_pool.margin(setting.allocator, emulated),
    )


def _maps(outcome: ChildOutcome) -> dict[str, BlockMap]:
    """Return the maps of blocks that a child sent, by what they are of."""
    found: dict[str, dict[str, Series]] = {}
    for series in outcome.series:
        if series.name in names.MAPS:
            found.setdefault(str(series.axes["at"]), {})[series.name] = series
    failed = next(
        (
            figure.value
            for figure in outcome.figures
            if figure.metric == names.FAILED_EVENT.name
            and figure.axes.get(names.ROOM) != names.RECORDED_ROOM
        ),
        None,
    )
    known = {names.PEAK: outcome.notes.get(PEAK_EVENT), names.FAILURE: failed}
    events = {at: int(event) for at, event in known.items() if event is not None}
    return {
        at: BlockMap(events.get(at, -1), _rows(pair[names.SEGMENTS]), _rows(pair[names.BLOCKS]))
        for at, pair in found.items()
        if len(pair) == len(names.MAPS)
    }


def _rows(series: Series) -> NDArray[np.int64]:
    return np.stack([np.array(column, np.int64) for column in series.columns.values()], 1)


def _doubts(
    recording: Recording, chosen: Sequence[Setting], emulated: bool, others: int
) -> list[str]:
    """Say what differs between the recorded program and what replays it."""
    doubts = rank_notes.doubts(recording)
    if others:
        doubts.append(
            f"other processes held {format_bytes(others)} of the recorded GPU: the replays have "
            "all of it; a run that failed or retried is held against a replay in what it had"
        )
    pools = [s.name for s in chosen if driver_pool.uses(s.allocator)]
    if emulated and pools:
        doubts.append(
            f"{', '.join(pools)}: that pool lives in NVIDIA's driver, and the emulated one has a "
            f"model of it: real runs were {driver_pool.MARGIN} off it where they were compared "
            "(docs/emulator.md); where that overlaps with another setting or the card, which is "
            "better is undecided without a GPU"
        )
    without = [setting.name for setting in chosen if not setting.has_private_pools]
    if recording.trace.pools and without:
        doubts.append(
            f"{', '.join(without)}: no private pools; what went to one is in the common pool, and "
            "whether the program fits is undecided"
        )
    was = str(recording.environment.get("torch", ""))
    now = str(installed("torch").get("torch") or "")
    if was and now and was != now:
        both = f"recorded with torch {was}, replayed with torch {now}"
        doubts.append(f"{both}: their rules may differ")
    return doubts
