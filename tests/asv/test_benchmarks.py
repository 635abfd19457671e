"""The benchmark classes as asv sees them: names, axes, versions, units, and the cells they read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allocmark.experiments import catalog
from allocmark.schema import metrics
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric

questions = pytest.importorskip("allocmark.asv.questions", reason="asv is not installed")

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("benchmarks_golden.json")
"""Whoever changes it changes asv's series: results of before lie beside other ones then."""
MOST_CELLS = 1500


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield questions.discover(ROOT / "benchmarks")


def cells(benchmark: Any) -> int:
    return math.prod(len(axis) for axis in benchmark.params)


def test_names_axes_versions_and_units_are_those_on_record(benchmarks: dict[str, Any]) -> None:
    golden = json.loads(GOLDEN.read_text())
    described = {name: questions.describe(one) for name, one in benchmarks.items()}
    kept = {
        name: {key: one[key] for key in golden[name]} if name in golden else one
        for name, one in described.items()
    }
    assert kept == golden


def test_asv_holds_no_more_than_it_can_draw(benchmarks: dict[str, Any]) -> None:
    counts = {name: cells(benchmark) for name, benchmark in benchmarks.items()}
    assert 0 < sum(counts.values()) <= MOST_CELLS, counts


def test_every_experiment_is_tracked(benchmarks: dict[str, Any]) -> None:
    experiments = {questions.question_of(one).experiment for one in benchmarks.values()}
    assert experiments == {each.name for each in catalog.in_suite()}


def test_every_cell_is_one_that_its_experiment_may_report(benchmarks: dict[str, Any]) -> None:
    """A misspelt axis would read no figure, ever, and nobody would be told."""
    for name, benchmark in benchmarks.items():
        question = questions.question_of(benchmark)
        read: list[tuple[Metric, dict[str, Axis]]] = []
        question.cell = lambda subject, metric, read=read, **axes: (
            read.append((metric, axes)) or 0.0
        )
        try:
            questions.evaluate(benchmark, None)
        finally:
            del question.cell
        assert len(read) == cells(benchmark), name
        for metric, axes in read:
            assert metrics.find(question.experiment, metric.name) is metric, name
            assert set(axes) == set(metric.axes), name


def test_what_is_no_question_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "own_benchmarks"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "mine.py").write_text("def time_nothing(): pass\n")
    warned: list[str] = []
    monkeypatch.setattr(questions.log, "warning", warned.append)
    assert questions.discover(folder) == {}
    assert warned == ["mine.time_nothing is left out: it is no method of a Question"]
