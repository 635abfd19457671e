"""The site: the newest runs merged, pages with what they link to, and the whole where MkDocs is."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from allocmark.publish.__main__ import publish
from allocmark.publish.folders import marked_site, refuse_foreign
from allocmark.publish.merging import merge
from allocmark.publish.pages import START, Part, write_pages
from allocmark.publish.whole_site import build
from allocmark.report.page import outline
from allocmark.schema.documents import read
from allocmark.store.frame import load
from allocmark.system.errors import EXIT_BAD_INPUT, AllocmarkError
from tests.support.command import program
from tests.support.compare_samples import FACTS, STACK, document, exact, put

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
        build([tmp_path / "record"], ROOT, tmp_path / "out", tmp_path / "scratch")


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="MkDocs is not installed")
def test_the_site_has_report_docs_and_data(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    told = build([tmp_path / "record"], ROOT, tmp_path / "out", tmp_path / "scratch")
    assert any("no history" in one for one in told)
    for name in ("index.html", "method.html", "report/index.html", "data/figures.csv"):
        assert (tmp_path / "out" / name).is_file(), name
    fetched = re.findall(r'(?:src|href)="(https?:[^"]+\.(?:js|css|woff2?))"',
                         (tmp_path / "out" / "index.html").read_text())  # fmt: skip
    assert not fetched


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="MkDocs is not installed")
def test_the_site_has_the_summaries_of_nights(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    for name in ("20261101T020000Z-aa", "20261102T020000Z-bb"):
        summary = tmp_path / "nightly" / "pinned" / name / "summary.md"
        summary.parent.mkdir(parents=True)
        summary.write_text(f"# pinned lane, test-gpu: fine: {name}\n\nNight {name}.\n")
    roots = [tmp_path / "record", tmp_path / "nightly"]
    build(roots, ROOT, tmp_path / "out", tmp_path / "scratch")
    listed = (tmp_path / "out" / "nights" / "index.html").read_text()
    links = re.findall(r'<li><a href="(pinned-[^"]+)"', listed)
    assert links == [
        "pinned-20261102T020000Z-bb.html",
        "pinned-20261101T020000Z-aa.html",
    ]
    assert all((tmp_path / "out" / "nights" / link).is_file() for link in links)
    assert 'href="nights/index.html"' in (tmp_path / "out" / "index.html").read_text()


def test_a_site_begins_with_hardware_measured_in_full(tmp_path: Path) -> None:
    def add(day: int, machine: str, probes: tuple[str, ...], emulated: bool) -> None:
        facts = {**FACTS, "machine": machine, "gpu": machine}
        for probe in probes:
            started = f"2026-11-{day:02}T00:00:00Z"
            one = document(exact("n", 1), probe=probe, started=started, facts=facts)
            put(tmp_path, replace(one, emulated=emulated))

    add(1, "full", ("latency", "context", "fragmentation"), False)
    add(2, "part", ("latency",), False)
    add(3, "emulated-full", ("latency", "context", "fragmentation"), True)
    add(4, "emulated-part", ("latency",), True)
    store = load(tmp_path)
    names = [part.panel.machine for part in outline(store, for_site=True).parts]
    assert names == ["full", "part", "emulated-full", "emulated-part"]
    newest = [part.panel.machine for part in outline(store).parts]
    assert newest == names[::-1]


def _missing(page: Path, text: str, pattern: str) -> list[str]:
    """Return the relative links of a page that lead to no file."""
    found = [link for link in re.findall(pattern, text) if not re.match(r"[a-z]+:|//", link)]
    paths = [(link, unquote(link.partition("#")[0].partition("?")[0])) for link in found]
    return [f"{page.name}: {link}" for link, path in paths if not (page.parent / path).exists()]


def test_no_page_links_to_what_the_site_has_not(tmp_path: Path) -> None:
    write_pages(ROOT / "docs", tmp_path, [])
    missing = []
    for page in tmp_path.glob("*.md"):
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
        missing += _missing(page, prose, r"\]\(([^)\s]+)")
    assert not missing


def test_a_link_to_another_file_of_the_project_becomes_its_words(tmp_path: Path) -> None:
    docs = tmp_path / "project" / "docs"
    docs.mkdir(parents=True)
    (docs.parent / "README.md").write_text(
        "# A\n[b](docs/b.md#x), [`tool`](tool.py)\n\n![seen](docs/pictures/p.svg)\n"
    )
    (docs / "pictures").mkdir()
    (docs / "pictures" / "p.svg").write_text("<svg/>")
    (docs.parent / "tool.py").touch()
    (docs / "b.md").write_text(
        "# B\n[all](../README.md), [the\ntool](../tool.py), [here](./),\n"
        "[there](mailto:a@example.org), [above](#b), [gone](../gone.md)\n"
    )
    (tmp_path / "pages").mkdir()
    write_pages(docs, tmp_path / "pages", [])
    assert (tmp_path / "pages" / "b.md").read_text() == (
        "# B\n[all](readme.md), the\ntool, here,\n"
        "[there](mailto:a@example.org), [above](#b), [gone](../gone.md)\n"
    )
    assert (tmp_path / "pages" / "readme.md").read_text() == (
        "# A\n[b](b.md#x), `tool`\n\n![seen](docs-pictures-p.svg)\n"
    )
    assert (tmp_path / "pages" / "docs-pictures-p.svg").read_text() == "<svg/>"


def test_pages_for_users_are_listed_first_in_their_order(tmp_path: Path) -> None:
    write_pages(ROOT / "docs", tmp_path, [])
    first = (tmp_path / "index.md").read_text()
    assert first.index("## Start here") < first.index("## Documentation")
    places = [first.index(f"({name}.md)") for name in START]
    assert places == sorted(places) and places[-1] < first.index("## Documentation")


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("out", "scratch", "said"),
    [
        ("other", "scratch", "holds something else: name an empty folder"),
        ("record", "scratch", "name an empty folder"),
        ("record/night1/site", "scratch", "name an empty folder"),
        (".", "scratch", "name an empty folder"),
        ("out", "record/new", "name an empty folder"),
        ("scratch/site", "scratch", "name an empty folder"),
        ("other/thesis.txt", "scratch", "cannot be used"),
    ],
)
def test_what_is_not_its_own_is_not_emptied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, scratch: str, said: str
) -> None:
    _put(tmp_path / "record", 1, 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").touch()
    before = _files(tmp_path)
    words = ["--out", str(tmp_path / out), "--scratch", str(tmp_path / scratch)]
    assert (
        program(publish, str(tmp_path / "record"), "--project", str(ROOT), *words) == EXIT_BAD_INPUT
    )
    assert _files(tmp_path) == before
    told = capsys.readouterr().err
    assert told.startswith("allocmark: ") and told.count("\n") == 1
    assert said in told


def test_a_site_is_known_by_its_marker_or_by_its_files(tmp_path: Path) -> None:
    marked_site(tmp_path / "new")
    for name in ("index.html", "report/index.html", "data/figures.csv", "search/search_index.json"):
        path = tmp_path / "old" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    refuse_foreign(tmp_path / "new", tmp_path / "scratch", [])
    refuse_foreign(tmp_path / "old", tmp_path / "scratch", [])
    path.unlink()
    with pytest.raises(AllocmarkError, match="holds something else"):
        refuse_foreign(tmp_path / "old", tmp_path / "scratch", [])


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="MkDocs is not installed")
def test_the_site_is_made_again_and_again_without_a_broken_link(tmp_path: Path) -> None:
    _put(tmp_path / "record", 1, 1)
    sources, out = [tmp_path / "record"], tmp_path / "out"
    build(sources, ROOT, out, tmp_path / "scratch")
    build(sources, ROOT, out, tmp_path / "scratch")
    (marker,) = out.glob(".*")
    marker.unlink()  # As an earlier version left it.
    build(sources, ROOT, out, tmp_path / "scratch")
    missing = []
    for page in out.rglob("*.html"):  # What begins at the server's root is none of its files.
        missing += _missing(page, page.read_text(), r'<[^>]*\s(?:href|src)="([^"#][^"]*)"')
    assert not missing
