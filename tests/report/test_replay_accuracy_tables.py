"""Replays against real runs: every outcome of a try has its words, and what is off its reasons."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.report.tables import replay_accuracy
from allocmark.schema.figure import Figure
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.schema.notes import ERROR, NOTES
from allocmark.store.frame import load
from allocmark.store.panel import panels
from allocmark.store.table import Table
from tests.support import report_samples as samples

NATIVE, ASYNC = "torch-native", "torch-async"


def _figure(metric: Metric, value: float | str, setting: str = NATIVE, *more: float) -> Figure:
    axes = {"allocator": setting}
    if isinstance(value, str):
        return metric.missing(value, axes, kind=metric.kind)
    return metric.figure("meter", axes, value, [value, *more])


def _tables(folder: Path, *figures: Figure) -> dict[str, Table]:
    samples.put(folder, samples.document(metrics.EXPERIMENT, "program", figures))
    (panel,) = panels(load(folder))
    found = replay_accuracy.tables(panel, ())
    return {table.id.removeprefix("replay_agreement-"): table for table in found}


def _texts(table: Table) -> list[list[str]]:
    return [[str(cell.text or cell.reason) for cell in row] for row in table.rows]


@pytest.mark.parametrize(
    ("above", "below", "words"),
    [
        (1, 0, "held"),
        (0, 0, "fails 1 % above"),
        (1, 1, "ends 3 % below"),
        (1, "cut off", "ends 1 % above, not tried below"),
        ("disturbed", 0, "fails 3 % below, not tried above"),
        ("disturbed", "disturbed", "not tried"),
    ],
)
def test_a_try_has_its_words(
    tmp_path: Path, above: float | str, below: float | str, words: str
) -> None:
    found = _tables(
        tmp_path,
        _figure(metrics.PREDICTED_CAPACITY_BYTES, 5 * (1 << 30)),
        _figure(metrics.ABOVE_COMPLETES, above),
        _figure(metrics.BELOW_COMPLETES, below),
    )
    assert _texts(found["capacity-tried"]) == [["program", f"5,120 MiB: {words}"]]
    off = _texts(found["off"]) if "off" in found else []
    wrong = words in ("fails 1 % above", "ends 3 % below")
    assert [row[2] for row in off] == [words] * wrong


def test_a_peak_that_is_off_has_what_the_counters_say(tmp_path: Path) -> None:
    found = _tables(
        tmp_path,
        _figure(metrics.RECORDED_ALLOCS, 100),
        _figure(metrics.REAL_ALLOCS, 120),
        _figure(metrics.EMULATED_DIFFERENCE_RATIO, 0.02),
        _figure(metrics.REAL_PEAK_RESERVED_BYTES, 1000, ASYNC, 1100),
        _figure(metrics.EMULATED_DIFFERENCE_RATIO, -0.1, ASYNC),
        _figure(metrics.GPU_DIFFERENCE_RATIO, -0.04, ASYNC),
        _figure(metrics.EMULATED_DIFFERENCE_RATIO, 0.004, "torch-split64"),
        _figure(metrics.EMULATED_DIFFERENCE_RATIO, 0.0, "torch-expandable"),
    )
    rows = {row[1]: row[2:] for row in _texts(found["off"])}
    assert rows == {
        NATIVE: ["peak +2 %", "allocs 120 under this setting, 100 when it was recorded"],
        ASYNC: [
            "peak -10 %",
            "the real runs differ by 10 % among themselves; "
            "a replay on the GPU itself: -4 %; "
            "the pool is the driver's: without a GPU a model stands for it",
        ],
    }
    (row,) = _texts(found["peaks-off"])
    assert dict(zip(map(str, found["peaks-off"].columns), row, strict=True)) == {
        "program": "program",
        NATIVE: "+2 %",
        ASYNC: "-10 %",
        "torch-split64": "+0.400 %",
        "torch-expandable": "equal",
    }


def test_equal_requests_that_end_otherwise_are_said_to_be_equal(tmp_path: Path) -> None:
    found = _tables(
        tmp_path,
        _figure(metrics.RECORDED_ALLOCS, 100),
        _figure(metrics.REAL_ALLOCS, 100),
        _figure(metrics.EMULATED_DIFFERENCE_RATIO, -0.03),
    )
    ((_, _, _, why),) = _texts(found["off"])
    assert why == "the program requests as much as when it was recorded, as often"


def test_a_program_that_requests_less_where_less_is_free_is_said_to(tmp_path: Path) -> None:
    figures = (
        _figure(metrics.RECORDED_PEAK_REQUESTED_BYTES, 3 << 20),
        _figure(metrics.BELOW_COMPLETES, 1),
        _figure(metrics.BELOW_PEAK_REQUESTED_BYTES, 2 << 20),
    )
    ((_, _, what, why),) = _texts(_tables(tmp_path, *figures)["off"])
    assert what == "ends 3 % below"
    assert why == "with less memory it requested 2 MiB at most, 3 MiB when it was recorded"


def test_what_lay_outside_the_allocator_when_it_failed_is_a_cause(tmp_path: Path) -> None:
    error = (
        "Including non-PyTorch memory, this process has 3.00 GiB memory in use. Of the allocated "
        "memory 1.50 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but "
        "unallocated."
    )
    figures = [_figure(metrics.ABOVE_COMPLETES, 0), _figure(metrics.OUTSIDE_BYTES, 600 << 20)]
    document = samples.document(metrics.EXPERIMENT, "program", figures)
    noted = {NOTES: {f"{ERROR}{NATIVE}, 1 % above": error}}
    samples.put(tmp_path, replace(document, conditions={**document.conditions, **noted}))
    (panel,) = panels(load(tmp_path))
    found = {table.id: table for table in replay_accuracy.tables(panel, ())}
    ((_, _, what, why),) = _texts(found["replay_agreement-off"])
    assert what == "fails 1 % above"
    assert why == "outside the allocator it held 1,024 MiB when it failed, 600 MiB by the recording"


def test_a_missing_library_is_a_reason_in_every_cell(tmp_path: Path) -> None:
    found = _tables(
        tmp_path,
        _figure(metrics.EMULATED_DIFFERENCE_RATIO, "diffusers is not installed"),
        _figure(metrics.PREDICTED_CAPACITY_BYTES, "diffusers is not installed"),
    )
    for name in ("peaks-off", "capacity-tried"):
        assert _texts(found[name]) == [["program", "diffusers is not installed"]]
    assert "off" not in found
