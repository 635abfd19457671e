"""The tables of docs/replay.md are those of the record, and the command renews them alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.system.errors import AllocmarkError
from allocmark.tools.accuracy import docs_page

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "replay.md"
RESULTS = ROOT / "results"
needs_results = pytest.mark.skipif(not RESULTS.is_dir(), reason="there is no record here")


@needs_results
def test_the_page_shows_what_the_record_holds(tmp_path: Path) -> None:
    copy = tmp_path / "replay.md"
    before = PAGE.read_text()
    copy.write_text(before)
    docs_page.renew(copy, RESULTS)
    assert copy.read_text() == before, "allocmark dev replay-accuracy --results results --page …"


@needs_results
def test_only_what_lies_between_the_marks_is_renewed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{docs_page.BEGIN}old\n{docs_page.END}after\n")
    docs_page.renew(page, RESULTS)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "#### Peak reserved" in text and "Measured on NVIDIA" in text


def test_a_page_without_a_place_and_a_folder_without_replays_are_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(AllocmarkError, match="has no place for the tables"):
        docs_page.renew(page, RESULTS)
    with pytest.raises(AllocmarkError):
        docs_page.section(tmp_path)
