"""What versions of torch say of the statements: the committed file, and a table of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.claims import catalog
from allocmark.claims.core.claim import Ruling
from allocmark.report.tables import versions as table
from allocmark.schema import versions
from allocmark.schema.versions import Said, Versions
from allocmark.system.errors import AllocmarkError
from tests.support import claims_samples as samples

RESULTS = Path(__file__).parents[2] / "results"


def test_where_versions_differ_comes_first_and_is_marked(tmp_path: Path) -> None:
    said = {
        "2.14.1+cu130": {"pt-cache": Said("holds", ""), "flow": Said("holds", "")},
        "2.9.1": {"pt-cache": Said("holds", ""), "flow": Said("holds in part", "")},
        "2.11.0": {"pt-cache": Said("holds", "")},
    }
    made = table._table(Versions("0.1.0", "2026-12-01", "h200", "quick", said))
    assert [str(head) for head in made.columns[2:]] == [
        "torch 2.9.1",
        "torch 2.11.0",
        "torch 2.14.1+cu130",
    ]
    cells = [[str(cell.text or cell.reason) for cell in row[1:]] for row in made.rows]
    missing = "not judged under this version"
    assert cells == [["≠", "holds in part", missing, "holds"], ["", "holds", "holds", "holds"]]


def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / versions.NAME).write_text('{"said": 3}')
    with pytest.raises(AllocmarkError, match="write it again"):
        versions.read(tmp_path)
    assert versions.read(tmp_path / "nowhere") is None


def test_the_committed_file_is_of_this_suites_statements() -> None:
    found = versions.read(RESULTS)
    if found is None:
        pytest.skip("the reference results are not in this copy")
    assert len(found.said) >= 3
    ids = {claim.id for claim in catalog.claims() if not (claim.on_time or claim.on_context)}
    for own in found.said.values():
        assert set(own) <= ids and len(own) > 12
        assert {Ruling(each.ruling) for each in own.values()} <= set(Ruling)


def test_an_emulated_page_has_no_such_table() -> None:
    assert table.tables(samples.panel(), ()) == []
