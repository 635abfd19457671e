"""Replays held against real runs of whole programs: peaks, the smallest GPU memory, what is off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from allocmark.allocators import registry
from allocmark.claims.core.claim import Judgement
from allocmark.report.table_spec import TableSpec, made
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.schema.notes import DESCRIPTION, ERROR, NOTES
from allocmark.store.cell_conditions import conditions
from allocmark.store.grid import METRIC, SUBJECT, Key, records_of
from allocmark.store.number_text import format_value
from allocmark.store.panel import Panel
from allocmark.store.table import Cell, Table, empty, figure, label
from allocmark.system import torch_oom_text
from allocmark.system.message import Joined, Message, Recorded, Text

TITLE = Message("How near replays come to real runs")
ORDER = 175
NEAR = 0.005
"""A peak that is further off is explained."""
_EXPERIMENT = metrics.EXPERIMENT
_PROGRAM = Key("subject", Message("program"))
_SETTING = Key("allocator", Message("setting"), order=SUBJECT.order)
_NOT_TRIED = Message("not tried")
_RECORDED_ONCE = Message("the recording is made under torch-native alone")
_DETAILS = (
    TableSpec(
        [
            metrics.REAL_PEAK_RESERVED_BYTES,
            metrics.RECORDED_PEAK_RESERVED_BYTES,
            metrics.EMULATED_REPLAY_PEAK_RESERVED_BYTES,
            metrics.GPU_REPLAY_PEAK_RESERVED_BYTES,
        ],
        Message("Replayed programs: peak reserved"),
        (_PROGRAM, _SETTING),
        METRIC,
        name="peaks",
        style="range",
        absent=_RECORDED_ONCE,
    ),
    TableSpec(
        [
            metrics.OUTSIDE_BYTES,
            metrics.PREDICTED_CAPACITY_BYTES,
            metrics.RESOLUTION_BYTES,
            metrics.ABOVE_BYTES,
            metrics.ABOVE_COMPLETES,
            metrics.BELOW_BYTES,
            metrics.BELOW_COMPLETES,
            metrics.BELOW_PEAK_REQUESTED_BYTES,
        ],
        Message("Replayed programs: the smallest GPU memory and what was tried"),
        (_PROGRAM, _SETTING),
        METRIC,
        about=Message(
            "Bytes that were free before the program started, its context and libraries included. "
            "1: it came to its end."
        ),
        name="tries",
    ),
    TableSpec(
        [
            metrics.REAL_PEAK_REQUESTED_BYTES,
            metrics.RECORDED_PEAK_REQUESTED_BYTES,
            metrics.REAL_ALLOCS,
            metrics.RECORDED_ALLOCS,
            metrics.REAL_SECONDS,
        ],
        Message("Replayed programs: what they request"),
        (_PROGRAM, _SETTING),
        METRIC,
        name="requests",
        style="range",
        absent=_RECORDED_ONCE,
    ),
)


_Rows = dict[str, tuple[int, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class _Place:
    """One program under one setting: its rows of the store by metric, with their indexes."""

    program: str
    setting: str
    rows: _Rows
    recorded: dict[str, float]
    """What torch counted while the program was recorded, by metric."""
    error: str = ""
    """Why it failed 1 % above."""

    def value(self, metric: Metric) -> float | None:
        """Return a number, None where there is none."""
        _, row = self.rows.get(metric.name, (0, {}))
        value = row.get("value")
        return None if value is None or math.isnan(value) else float(value)

    def cell(self, metric: Metric) -> Cell:
        """Return the cell of a metric as the record has it."""
        if metric.name not in self.rows:
            return empty(Message("not part of this run"))
        return figure(*self.rows[metric.name])

    @property
    def spread(self) -> float:
        """By what share of their median the real runs differ at most."""
        _, row = self.rows.get(metrics.REAL_PEAK_RESERVED_BYTES.name, (0, {}))
        if not self.value(metrics.REAL_PEAK_RESERVED_BYTES):
            return 0.0
        return float((row["maximum"] - row["minimum"]) / row["value"])


_Places = Mapping[tuple[str, str], _Place]


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the two grids, what is off and why, the programs, and every figure behind them."""
    rows = panel.figures(_EXPERIMENT)
    if rows.empty:
        return []
    by_place: dict[tuple[str, str], _Rows] = {}
    recorded: dict[str, dict[str, float]] = {}
    for index, row in records_of(rows).items():
        program, name = str(row["subject"]), str(row["metric"])
        by_place.setdefault((program, str(row["allocator"])), {})[name] = index, row
        if name.startswith("recorded_") and not math.isnan(row["value"]):
            recorded.setdefault(program, {})[name] = row["value"]
    noted = _notes(panel)
    places = {
        (program, setting): _Place(
            program,
            setting,
            own,
            recorded.get(program, {}),
            str(noted.get(program, {}).get(f"{ERROR}{setting}, 1 % above", "")),
        )
        for (program, setting), own in by_place.items()
    }
    held = conditions(panel.store, rows)
    found = [
        _grid(
            "peaks-off",
            Message("Peak reserved: replay without a GPU, less the real run"),
            Message(
                "Each program was recorded once, under default settings; the recording was "
                "replayed under each setting on the emulated driver, and the program itself ran "
                "under each on the GPU. Equal: to the byte."
            ),
            places,
            _difference,
        ),
        _grid(
            "capacity-tried",
            Message("Smallest GPU memory by the replay, and what the program itself did there"),
            Message(
                "Held: with a ballast that left 1 % more than that, the program came to its end, "
                "and with 3 % and the resolution less it ran out of memory."
            ),
            places,
            _capacity,
        ),
        _off(places.values()),
        _programs(panel),
    ]
    shown = [
        Table(t.id, t.title, t.columns, t.rows, t.about, held, leading=t.leading)
        for t in found
        if t.rows
    ]
    return [*shown, *made(panel, _DETAILS)]


def _grid(
    name: str, title: Text, about: Text, places: _Places, show: Callable[[_Place], Cell]
) -> Table:
    programs = dict.fromkeys(program for program, _ in places)
    settings = sorted({setting for _, setting in places}, key=_SETTING.rank)
    absent = empty(Message("not part of this run"))
    lines = []
    for program in programs:
        own = [places.get((program, setting)) for setting in settings]
        cells = [absent if place is None else show(place) for place in own]
        lines.append((label(Recorded(program)), *cells))
    heads = (_PROGRAM.heading, *map(Recorded, settings))
    return Table(f"{_EXPERIMENT}-{name}", title, heads, tuple(lines), about, leading=True)


def _difference(place: _Place) -> Cell:
    cell = place.cell(metrics.EMULATED_DIFFERENCE_RATIO)
    if cell.value is None:
        return cell
    text = _percent(cell.value) if cell.value else Message("equal")
    return Cell(text, cell.value, "share", rows=cell.rows)


def _percent(share: float) -> str:
    return f"{'+' * (share > 0)}{format_value(share, 'share')}"


def _capacity(place: _Place) -> Cell:
    cell = place.cell(metrics.PREDICTED_CAPACITY_BYTES)
    if cell.value is None:
        return cell
    above, below = (
        place.value(metric) for metric in (metrics.ABOVE_COMPLETES, metrics.BELOW_COMPLETES)
    )
    if above == 0:
        came = Message("fails 1 % above")
    elif below == 1:
        came = Message("ends 3 % below")
    elif above is None and below is None:
        came = _NOT_TRIED
    elif below is None:
        came = Message("ends 1 % above, not tried below")
    elif above is None:
        came = Message("fails 3 % below, not tried above")
    else:
        came = Message("held")
    text = Joined(": ", (cell.text, came))
    return Cell(text, cell.value, cell.unit, rows=cell.rows)


def _off(places: Iterable[_Place]) -> Table:
    """Return what is off and what the counters say of why."""
    lines = []
    for place in places:
        for what in _whats(place):
            causes = list(_causes(place)) or [
                Message("the program requests as much as when it was recorded, as often")
            ]
            texts = (Recorded(place.program), Recorded(place.setting), what)
            lines.append((*map(label, texts), label(Joined("; ", tuple(causes)))))
    heads = (_PROGRAM.heading, _SETTING.heading, Message("off"), Message("what the counters say"))
    title = Message("Where a replay and the real run part, and what the counters say of why")
    about = Message("Peaks that are more than {share} off, and tries that went otherwise.")
    return Table(
        f"{_EXPERIMENT}-off",
        title,
        heads,
        tuple(lines),
        about.filled({"share": format_value(NEAR, "share")}),
        leading=True,
    )


def _whats(place: _Place) -> Iterator[Text]:
    off = place.value(metrics.EMULATED_DIFFERENCE_RATIO)
    if off is not None and abs(off) > NEAR:
        yield Message("peak {share}", share=_percent(off))
    if place.value(metrics.ABOVE_COMPLETES) == 0:
        yield Message("fails 1 % above")
    if place.value(metrics.BELOW_COMPLETES) == 1:
        yield Message("ends 3 % below")


def _causes(place: _Place) -> Iterator[Text]:
    if place.spread > NEAR:
        yield Message(
            "the real runs differ by {share} among themselves",
            share=format_value(place.spread, "share"),
        )
    pairs = (
        (metrics.REAL_ALLOCS, metrics.RECORDED_ALLOCS),
        (metrics.REAL_PEAK_REQUESTED_BYTES, metrics.RECORDED_PEAK_REQUESTED_BYTES),
    )
    for real, recorded in pairs:
        now, was = place.value(real), place.recorded.get(recorded.name)
        if now is not None and was is not None and now != was:
            yield Message(
                "{metric} {now} under this setting, {was} when it was recorded",
                metric=Recorded(real.name.removeprefix("real_").replace("_", " ")),
                now=format_value(now, real.unit),
                was=format_value(was, real.unit),
            )
    requested = place.value(metrics.BELOW_PEAK_REQUESTED_BYTES)
    was = place.recorded.get(metrics.RECORDED_PEAK_REQUESTED_BYTES.name)
    if place.value(metrics.BELOW_COMPLETES) == 1 and requested and was and requested != was:
        yield Message(
            "with less memory it requested {now} at most, {was} when it was recorded",
            now=format_value(requested, "bytes"),
            was=format_value(was, "bytes"),
        )
    told, assumed = torch_oom_text.outside_bytes(place.error), place.value(metrics.OUTSIDE_BYTES)
    if told is not None and assumed is not None and told > assumed * (1 + NEAR):
        yield Message(
            "outside the allocator it held {told} when it failed, {assumed} by the recording",
            told=format_value(told, "bytes"),
            assumed=format_value(assumed, "bytes"),
        )
    on_gpu = place.value(metrics.GPU_DIFFERENCE_RATIO)
    if on_gpu is not None:
        yield Message("a replay on the GPU itself: {share}", share=_percent(on_gpu))
    if (allocator := registry().get(place.setting)) is not None and allocator.driver_pool:
        yield Message("the pool is the driver's: without a GPU a model stands for it")


def _notes(panel: Panel) -> dict[str, Mapping[str, Any]]:
    """Return the notes of each program's document."""
    found: dict[str, Mapping[str, Any]] = {}
    for _, source in panel.sources(_EXPERIMENT):
        noted = source.document.conditions.get(NOTES)
        if isinstance(noted, dict):
            found[source.document.subject] = noted
    return found


def _programs(panel: Panel) -> Table:
    lines = []
    for program, noted in _notes(panel).items():
        if description := noted.get(DESCRIPTION):
            lines.append((label(Recorded(program)), label(Recorded(str(description)))))
    heads = (_PROGRAM.heading, Message("meaning"))
    return Table(f"{_EXPERIMENT}-programs", Message("Replayed programs"), heads, tuple(lines))
