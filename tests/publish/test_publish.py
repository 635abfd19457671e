"""The site: the newest runs merged, pages with what they link to, and the whole where MkDocs is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from compare_samples import STACK, document, exact, put

from allocmark.documents import read
from allocmark.errors import AllocmarkError
from allocmark.publish import Sources, build
from allocmark.publish.merging import merge
from allocmark.publish.pages import Part, write_pages

ROOT = Path(__file__).parents[2]


def _put(root: Path, day: int, value: float, finished: bool = True) -> None:
    one = document(exact("ooms", value), run=f"r{day}", started=f"2026-11-{day:02}T00:00:00Z")
    put(root / f"night{day}" / "results", one, finished=finished)


def test_of_each_stack_the_newest_run_that_ended_is_taken(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    _put(tmp_path / "record", 2, 2)
    _put(tmp_path / "record", 3, 3, finished=False)
    out = merge([tmp_path / "record"], tmp_path / "out")
    (path,) = out.rglob("*.gz")
    assert path.relative_to(out).parts[:3] == ("test-gpu", STACK, "quick")
    assert read(path).figures[0].value == 2


def test_nothing_is_merged_into_something_else(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(AllocmarkError, match="is not empty"):
        merge([tmp_path / "record"], tmp_path)
    with pytest.raises(AllocmarkError, match="no results below"):
        merge([tmp_path / "nothing"], tmp_path / "out")


def test_pages_bring_what_they_link_to(tmp_path: Path) -> None:
    write_pages(ROOT / "docs", tmp_path, [Part("report", "index.html", "Report", "tables")])
    pages = {path.name: path.read_text() for path in tmp_path.glob("*.md")}
    assert "- [Report](report/index.html): tables" in pages["index.md"]
    for name, text in pages.items():
        for link in re.findall(r"\]\(([^)#:]+\.md)", text):
            if name in {path.name for path in (ROOT / "docs").glob("*.md")}:
                assert link in pages, f"{name} links to {link}"


def test_a_scratch_folder_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch" / "thesis.txt").touch()
    with pytest.raises(AllocmarkError, match="holds something else"):
        build(Sources([tmp_path / "record"], ROOT), tmp_path / "out", tmp_path / "scratch")


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="MkDocs is not installed")
def test_the_site_has_report_docs_and_data(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    told = build(Sources([tmp_path / "record"], ROOT), tmp_path / "out", tmp_path / "scratch")
    assert any("no history" in one for one in told)
    for name in ("index.html", "method.html", "report/index.html", "data/figures.csv"):
        assert (tmp_path / "out" / name).is_file(), name
    fetched = re.findall(r'(?:src|href)="(https?:[^"]+\.(?:js|css|woff2?))"',
                         (tmp_path / "out" / "index.html").read_text())  # fmt: skip
    assert not fetched
