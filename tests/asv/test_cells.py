"""Cells: what asv is given of a figure, and where it finds it."""

from __future__ import annotations

import math

import pytest

from allocmark.asv.cells import Question, cell_of, cells_of
from allocmark.schema.documents import Document
from allocmark.schema.figure import Axis, Figure
from allocmark.schema.metric import Metric

AXES: dict[str, Axis] = {"path": "hit", "bytes": 512}


def document(*figures: Figure) -> Document:
    return Document(
        probe="latency",
        subject="torch-native",
        profile="quick",
        run="r",
        started="2026-11-01T00:00:00Z",
        seconds=1.0,
        command="allocmark run",
        suite="0",
        emulated=True,
        stack={},
        conditions={},
        figures=figures,
    )


def test_times_become_samples_in_seconds() -> None:
    figure = Figure("pair_ns", "ns", "time", "clock", AXES, 2.0, [1.0, 2.0, 3.0])
    assert cell_of(figure) == {"samples": pytest.approx([1e-9, 2e-9, 3e-9]), "number": 1}


def test_exact_figures_stay_numbers() -> None:
    figure = Figure("peak_bytes", "bytes", "exact", "counter", AXES, 1 << 40, [1 << 40, 1 << 40])
    assert cell_of(figure) == 1 << 40


def test_a_percentile_is_not_replaced_by_the_median_of_its_samples() -> None:
    figure = Figure("p99_ns", "ns", "time", "clock", AXES, 9.0, [1.0, 2.0, 9.0])
    assert cell_of(figure) == pytest.approx(9e-9)


def test_a_histogram_stays_a_number() -> None:
    figure = Figure("p_us", "us", "time", "clock", AXES, 2.0, [1.0, 2.0, 3.0], counts=[5, 90, 5])
    assert cell_of(figure) == pytest.approx(2e-6)


def test_a_missing_figure_is_not_a_number() -> None:
    cell = cell_of(Figure("x", "ns", "time", "none", AXES, reason="no"))
    assert isinstance(cell, float) and math.isnan(cell)


def test_cells_are_found_by_subject_metric_and_axes_in_any_order() -> None:
    class Mine(Question):
        experiment = "latency"

    mine = Mine()
    mine.cells = cells_of(
        [
            document(
                Figure("a_bytes", "bytes", "exact", "m", AXES, 7.0),
                Figure(
                    "a_bytes", "bytes", "exact", "m", {"path": "miss", "bytes": 512}, reason="no"
                ),
            )
        ]
    )
    a, b = (Metric("latency", n, "bytes", "exact", ("path", "bytes"), "") for n in ("a_bytes", "b"))
    assert mine.cell("torch-native", a, bytes=512, path="hit") == 7
    for subject, metric, path in (
        ("torch-native", a, "miss"),
        ("torch-native", b, "hit"),
        ("torch-async", a, "hit"),
    ):
        cell = mine.cell(subject, metric, path=path, bytes=512)
        assert isinstance(cell, float) and math.isnan(cell)
