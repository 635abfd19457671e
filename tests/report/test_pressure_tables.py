"""The tables of runs towards an OOM say what torch does not count in expandable segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.report.table_spec import made
from allocmark.report.tables import pressure
from allocmark.report.tables.rules import _ABOUT
from allocmark.report.translation import rendered
from allocmark.schema.figure import Axis, Figure
from allocmark.store.frame import load
from allocmark.store.panel import panels
from tests.support import report_samples as samples

UNCOUNTED = "In expandable segments torch counts no inactive split bytes"
SAID = {
    "shown_bytes": '0 means "not counted"',
    "inactive_split_bytes_max_before": "0 there does not say that there are none",
    "unreturnable_share_max_before": "there, the figure is of live ones alone",
    "first-unreturnable-share-event": "there, the figure is of live ones alone",
}


@pytest.fixture
def abouts(tmp_path: Path) -> dict[str, str]:
    """Return the captions of all tables."""
    place: dict[str, Axis] = {"workload": "training", "capacity_ratio": 1.0}
    found: list[tuple[str, dict[str, Axis]]] = [
        ("shown_bytes", {"point": "before", "counter": "allocated"}),
        ("cache_share_max", place),
        ("inactive_split_bytes_max_before", place),
        ("unreturnable_share_max_before", place),
        ("first_above_event", {**place, "sign": "unreturnable_share", "above": 0.9}),
        ("first_above_event", {**place, "sign": "cache_share", "above": 0.3}),
    ]
    figures = [Figure(name, "bytes", "sampled", "counters", axes, 0) for name, axes in found]
    samples.put(tmp_path, samples.document("pressure", "torch-expandable", figures))
    (panel,) = panels(load(tmp_path))
    return {t.id.removeprefix("pressure-"): str(t.about) for t in made(panel, pressure.TABLES)}


def test_what_expandable_segments_do_not_count_is_said_where_it_matters(
    abouts: dict[str, str],
) -> None:
    for name, words in SAID.items():
        assert UNCOUNTED in abouts[name] and words in abouts[name]
    others = [about for name, about in abouts.items() if name not in SAID]
    assert len(others) == 2
    assert not any(UNCOUNTED in about for about in others)


def test_the_rules_say_it_of_their_sign() -> None:
    assert UNCOUNTED in str(_ABOUT)
    assert "可扩展段" in rendered(_ABOUT, "zh")
