"""The Markdown that is browsed: an index, a page a section, conditions once, no dead link."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from allocmark.report import sharing, write_report
from allocmark.report.markdown import heading
from allocmark.report.page import page
from allocmark.report.translation import rendered
from allocmark.store.frame import load
from tests.support import report_samples as samples
from tests.support.html_samples import RESULTS

LARGEST_BYTES = 500 * 1024
"""GitHub shows no more of a file."""
_LINK = re.compile(r"(?<!\\)\]\(([^)#\s]+)(?:#[^)]*)?\)")


def dead_links(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the links of Markdown files below a folder that lead to no file."""
    for path in sorted(root.rglob("*.md")):
        for target in _LINK.findall(path.read_text(encoding="utf-8")):
            if "://" not in target and not (path.parent / target).is_file():
                yield path, target


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report")
    write_report(RESULTS, out, "zh")
    return out


def test_no_file_is_larger_than_what_is_shown_and_no_link_is_dead(written: Path) -> None:
    sizes = {path: path.stat().st_size for path in written.rglob("*.md")}
    assert len(sizes) > 30
    assert [path for path, size in sizes.items() if size >= LARGEST_BYTES] == []
    assert list(dead_links(written)) == []


@pytest.mark.parametrize(("language", "tail"), [("en", ".md"), ("zh", ".zh.md")])
def test_the_index_leads_to_every_section_in_its_language(
    written: Path, language: str, tail: str
) -> None:
    (part, *_) = page(load(RESULTS)).parts
    index = (written / f"README{tail}").read_text()
    for section in part.sections:
        title = rendered(section.title, "zh" if language == "zh" else "en")
        (target,) = re.findall(rf"\n1\. \[{re.escape(title)}\]\(([^)]+)\)", index)
        assert target.endswith(tail)
        text = (written / target).read_text()
        assert text.startswith(f"{heading(1, title)}\n")
        assert f"](../README{tail})" in text
    assert "(nvidia-h200/figure-capacity.svg)" in index
    assert all(str(one.evidence.marked) in index for one in part.headlines)


def test_what_held_for_most_tables_is_said_on_one_page(tmp_path: Path) -> None:
    results = tmp_path / "results"
    samples.everything(results)
    write_report(results, tmp_path / "report")
    (part,) = page(load(results)).parts
    folder = tmp_path / "report" / part.slug
    common = sharing.shared(table for section in part.sections for table in section.tables)
    assert common
    for name, text in common:
        line = f"- {name}: {text}"
        holding = [path.name for path in folder.glob("*.md") if line in path.read_text()]
        assert holding == ["conditions.md"], line
    own = [
        (name, text)
        for section in part.sections
        for table in section.tables
        for name, text in sharing.own(table, common)
    ]
    every = "\n".join(path.read_text() for path in folder.glob("*.md"))
    assert own and all(f"- {name}: {text}" in every for name, text in own)


@cache
def _committed() -> Path:
    return Path(__file__).parents[2]


def test_no_committed_markdown_is_cut_where_it_is_browsed() -> None:
    for folder in ("docs", "reports", "results"):
        for path in (_committed() / folder).rglob("*.md"):
            assert path.stat().st_size < LARGEST_BYTES, path
    assert list(dead_links(_committed() / "reports")) == []
