"""Signs that nobody can have read are empty cells, whatever an older document says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from allocmark.experiments.pressure import oom
from allocmark.report.page import page
from allocmark.schema.figure import Axis, Figure
from allocmark.store import early
from allocmark.store.frame import load
from allocmark.store.panel import Panel, panels
from allocmark.store.table import Cell
from tests.support import report_samples as samples
from tests.support.html_samples import RESULTS

UNTOLD = "torch-native does not tell this"


def _run(failed_event: int, **axes: Axis) -> Iterator[Figure]:
    """Yield what was written of a run: 0 for what was not read, or that nobody tells it."""
    yield Figure("failed_event", "event", "sampled", "m", axes, failed_event, [failed_event])
    yield Figure("retries", "retries", "sampled", "m", axes, 1, [1])
    for metric in ("retries_before", "cache_share_max_before"):
        yield Figure(metric, "retries", "sampled", "m", axes, 0, [0])
    yield Figure("unreturnable_share_max_before", "ratio", "exact", "none", axes, reason=UNTOLD)


def _cells(root: Path, *figures: Figure) -> dict[tuple[str, str], Cell]:
    """Return the cells of the tables by metric and capacity."""
    samples.put(root, samples.document("pressure", "torch-native", figures))
    (part,) = page(load(root)).parts
    return {
        (table.id.removeprefix("pressure-"), heading): cell
        for section in part.sections
        for table in section.tables
        if table.id.startswith("pressure-")
        for row in table.rows
        for heading, cell in zip(table.columns[2:], row[2:], strict=True)
    }


def _places(panel: Panel, chosen: Callable[[str, float], bool]) -> set[tuple[object, ...]]:
    columns = ["metric", "value", "subject", "workload", "capacity_ratio"]
    rows = panel.figures("pressure")[columns].itertuples(index=False, name=None)
    return {tuple(place) for metric, value, *place in rows if chosen(metric, value)}


def test_a_run_that_failed_early_has_the_true_reason_and_no_zero(tmp_path: Path) -> None:
    runs = [
        *_run(99, workload="descending", capacity_ratio=1.0),
        *_run(100, workload="descending", capacity_ratio=1.5),
    ]
    cells = _cells(tmp_path, *runs)
    for metric in ("retries_before", "cache_share_max_before", "unreturnable_share_max_before"):
        assert cells[metric, "1 x live peak"].value is None
        assert cells[metric, "1 x live peak"].reason == early.NO_LEAD
    assert cells["retries_before", "1.5 x live peak"].value == 0
    assert cells["unreturnable_share_max_before", "1.5 x live peak"].reason == UNTOLD
    assert cells["retries", "1 x live peak"].value == 1


def test_what_is_right_already_stays_as_it_is(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    store = load(tmp_path)
    assert early.without_unread(store) is store
    place: dict[str, Axis] = {"workload": "descending", "capacity_ratio": 1.0}
    samples.put(tmp_path, samples.document("pressure", "torch-native", list(_run(8, **place))))
    once = early.without_unread(load(tmp_path))
    assert early.without_unread(once).figures.equals(once.figures)


def test_the_words_and_the_lead_are_those_of_the_probe() -> None:
    assert (early.NO_LEAD, early.LEAD_EVENTS) == (oom.NO_LEAD, oom.LEAD_EVENTS)


def test_the_committed_record_shows_no_sign_of_a_run_that_failed_early() -> None:
    for panel in panels(load(RESULTS, {"pressure"})):
        early_runs = _places(panel, lambda metric, value: metric == "failed_event" and value < 100)
        signs = _places(panel, lambda metric, value: metric.endswith("_before") and value >= 0)
        assert early_runs.isdisjoint(signs)
