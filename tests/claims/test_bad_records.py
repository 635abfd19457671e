"""Records that no probe writes: the page is made all the same, and says what it could not read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from allocmark.claims.core.claim import Ruling
from allocmark.report.page import page
from allocmark.schema.figure import Figure
from allocmark.store.frame import load
from tests.support import claims_samples as samples
from tests.support import report_samples

pytestmark = pytest.mark.fault

HOSTILE = "{x} {0} <b>"


def _changed(axes: dict[str, Any], how: str) -> dict[str, Any]:
    match how:
        case "no axes":
            return {}
        case "text for numbers":
            return {name: f"~{value}" if value != "" else "" for name, value in axes.items()}
        case "hostile names":
            return {n: HOSTILE if n in ("workload", "call") else v for n, v in axes.items()}
        case _:
            return {**axes, "unheard_of": 1}


@pytest.mark.parametrize("how", ["no axes", "text for numbers", "hostile names", "another axis"])
def test_axes_that_are_not_what_they_should_be(tmp_path: Path, how: str) -> None:
    made: dict[tuple[str, str], list[Figure]] = {}
    for place, value in samples.record().items():
        figure = samples.figure(place, value)
        figure = replace(figure, axes=_changed(dict(figure.axes), how))
        made.setdefault((place.probe, place.subject), []).append(figure)
    for (probe, subject), figures in made.items():
        report_samples.put(tmp_path, report_samples.document(probe, subject, figures))
    (part,) = page(load(tmp_path)).parts
    for one in part.judged:
        if one.verdict.ruling is Ruling.NOT_MEASURED:
            assert str(one.verdict.filled(one.verdict.reason))


def test_every_figure_without_a_value(tmp_path: Path) -> None:
    made: dict[tuple[str, str], list[Figure]] = {}
    for place, value in samples.record().items():
        figure = samples.figure(place, value)
        figure = replace(figure, value=None, samples=(), reason=f"lost: {HOSTILE}")
        made.setdefault((place.probe, place.subject), []).append(figure)
    for (probe, subject), figures in made.items():
        report_samples.put(tmp_path, report_samples.document(probe, subject, figures))
    (part,) = page(load(tmp_path)).parts
    assert {one.verdict.ruling for one in part.judged} == {Ruling.NOT_MEASURED}
    told = [str(one.verdict.filled(one.verdict.reason)) for one in part.judged]
    assert sum(HOSTILE in reason for reason in told) > 20
