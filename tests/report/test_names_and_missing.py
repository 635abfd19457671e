"""What the names mean is told of all that the suite measures; what is missing is told shortly."""

from __future__ import annotations

from pathlib import Path

from allocmark.allocators import registry
from allocmark.report.page import page
from allocmark.report.tables.names import _set_by
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.store.frame import load
from allocmark.store.table import Table
from allocmark.workloads import catalog
from tests.support import report_samples as samples
from tests.support.html_samples import published


def _table(results: Path, name: str) -> Table:
    (part,) = page(load(results)).parts
    return next(t for section in part.sections for t in section.tables if t.id == name)


def _texts(table: Table) -> list[list[str]]:
    return [[str(cell.text) for cell in row] for row in table.rows]


def test_every_workload_of_the_suite_has_a_meaning() -> None:
    assert all(catalog.descriptions().values())
    assert {*catalog.descriptions()} == {*catalog.names()}


def test_every_allocator_of_the_published_page_has_a_meaning() -> None:
    tables = {t.id: t for section in published().part.sections for t in section.tables}
    told = {row[0] for row in _texts(tables["names-allocators"])}
    rows = published().part.panel.rows
    measured = set(rows.loc[rows["value"].notna(), "subject"].astype(str))
    assert told == measured & registry().keys()
    settings = dict((row[0], row[2]) for row in _texts(tables["names-allocators"]))
    assert settings["torch-expandable"] == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert settings["torch-native"] == settings["tf-greedy"] == "nothing: its defaults"
    assert settings["tf-growth"] == "set_memory_growth(gpu, True)"
    assert settings["tf-limit"] == "memory_limit=8192; memory_limit=4096 in tensorflow_policy"
    assert all(settings.values())


def test_a_limit_that_is_not_noted_is_said_to_be_unknown(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.fragmentation("tf-limit", 0.1, 120))
    ((name, _, setting),) = _texts(_table(tmp_path, "names-allocators"))
    assert name == "tf-limit"
    assert setting == "memory_limit, of which this record does not say how much"


def test_every_allocator_has_something_that_sets_it() -> None:
    (part, *_) = published().page.parts
    for name, allocator in registry().items():
        assert str(_set_by(allocator, part.panel.bare())), name


def test_reasons_that_differ_in_numbers_are_one_line_and_lose_no_other(tmp_path: Path) -> None:
    def lacking(metric: str, workload: str, reason: str) -> Figure:
        return Figure(metric, "bytes", "exact", "none", {"workload": workload}, reason=reason)

    figures = [
        lacking("device_bytes", "a", "left out: 0.6 s were left"),
        lacking("device_bytes", "b", "left out: 0.9 s were left"),
        lacking("segments", "a", "it keeps no counter of this"),
    ]
    failures = [
        Failure("b", "left out: 0.7 s were left"),  # Its cells say so.
        Failure("start", "the process was ended"),
    ]
    for subject in ("cuda-malloc", "torch-native"):
        document = samples.document("fragmentation", subject, figures, failures=failures)
        samples.put(tmp_path, document)
    both = "cuda-malloc, torch-native"
    assert _texts(_table(tmp_path, "missing")) == [
        ["fragmentation", both, "segments", "it keeps no counter of this"],
        ["fragmentation", both, "device_bytes", "left out: 0.6 s were left (and 1 like it)"],
        ["fragmentation", both, "start", "the process was ended"],
    ]
