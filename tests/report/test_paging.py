"""Many stacks: which of them have a page, what becomes of the rest, no link that leads nowhere."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.report import build, render_markdown, write_report
from allocmark.report.page import outline, page
from allocmark.report.paging import PAGES, with_page, without_page
from allocmark.report.stacks import stacks
from allocmark.report.webpage import render
from allocmark.store.frame import Source, Store, load
from allocmark.store.panel import Panel
from tests.support import report_samples as samples

_HOW = (
    "copy its folders MACHINE/STACK into an empty folder and run allocmark report --results FOLDER"
)


def _put(root: Path, day: int, gpu: str, framework: str = "torch", emulated: bool = False) -> Path:
    """Write what a stack of its own measured on a day of January; return its folder."""
    made = samples.fragmentation("torch-native", 0.1, 100 + day)
    driver = f"{550 + day}.1"
    stack = {**samples.STACK, "gpu": gpu, "driver": driver, "framework": framework}
    started = f"2026-01-{day:02}T00:00:00+00:00"
    made = replace(made, stack=stack, started=started, emulated=emulated, run=str(day))
    path = samples.put(root, made, machine=gpu.lower(), stack=f"{framework}-driver{driver}")
    return path.parents[1]


def _many(root: Path) -> list[Path]:
    """Write nine stacks of one GPU, and older ones: another GPU, an emulated one, TensorFlow."""
    folders = [_put(root, day, "A") for day in range(11, 20)]
    _put(root, 1, "B")
    _put(root, 2, "A", emulated=True)
    _put(root, 3, "A", framework="tensorflow")
    return folders


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write all pages in this process: to start others takes longer than these pages."""
    monkeypatch.setattr(build, "_MANY", 99)


@pytest.mark.usefixtures("here")
def test_of_many_stacks_only_some_have_a_page_and_no_link_is_dead(tmp_path: Path) -> None:
    _many(tmp_path / "results")
    for name in ("one", "two"):
        write_report(tmp_path / "results", tmp_path / name)
    one, two = (
        {p.relative_to(root): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
        for root in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two

    out = tmp_path / "one"
    pages = sorted(out.rglob("index.html"))
    assert len(pages) == PAGES
    reached = set()
    for file in (*pages, *out.rglob("*.md")):
        text = file.read_text()
        found = re.findall(r"href=\"?([^\"# >]+)", text) if file.suffix == ".html" else []
        found += re.findall(r"\]\(([^)#]+)\)", text) if file.suffix == ".md" else []
        for target in found:
            if target.startswith("data:"):
                continue
            assert (file.parent / target).is_file(), (file, target)
            reached.add((file.parent / target).resolve())
    assert reached.issuperset(page.resolve() for page in pages)

    sentence = f"6 older stacks have no page of their own: for the page of one, {_HOW}"
    front = (out / "index.html").read_text()
    assert sentence in front and "6 个较早的组合" in front
    others = [page.read_text() for page in pages if page.parent != out]
    assert not [text for text in others if "older stack" in text]
    assert f"{sentence}.\n" in (out / "README.md").read_text()


def test_the_newest_of_each_gpu_and_set_of_frameworks_have_a_page(tmp_path: Path) -> None:
    _many(tmp_path)
    made = outline(load(tmp_path))
    drivers = [re.findall(r"driver (\d+)", str(part.title))[0] for part in made.parts]
    assert drivers == ["569", "568", "567", "553", "552", "551"]
    older = [re.findall(r"driver (\d+)", str(part.title))[0] for part in made.older]
    assert older == ["566", "565", "564", "563", "562", "561"]
    assert [p.panel.shown for p in page(load(tmp_path)).parts] == [
        part.panel.shown for part in made.parts
    ]


def test_a_stack_without_a_page_is_still_compared_and_named(tmp_path: Path) -> None:
    _many(tmp_path)
    made = outline(load(tmp_path))
    beside = stacks(made.parts[0], made.everything)
    assert beside is not None
    named = {*(other.label for other in beside.others), *beside.left_out}
    hardware = [str(part.title) for part in made.everything if not part.panel.emulated]
    assert named == {*hardware[1:]}
    assert [other.label for other in beside.others] == hardware[1:5]
    html = render(made, made.parts[0], [], beside=beside)
    assert all(label in html for label in named)


@pytest.mark.usefixtures("here")
def test_its_folder_alone_gives_an_older_stack_its_page(tmp_path: Path) -> None:
    first, *_ = _many(tmp_path / "results")
    assert "561.1" not in render_markdown(tmp_path / "results")
    shutil.copytree(first, tmp_path / "alone" / first.parent.name / first.name)
    written = write_report(tmp_path / "alone", tmp_path / "report")
    text = written.read_text()
    assert "561.1" in text and "111 MiB" in text
    assert "older stack" not in text


def test_a_few_stacks_all_have_their_page_and_nothing_is_said(tmp_path: Path) -> None:
    for day in range(1, PAGES + 1):
        _put(tmp_path, day, "A")
    made = outline(load(tmp_path))
    assert len(made.parts) == PAGES
    assert made.older == ()
    assert without_page(0) == ""
    assert "older stack" not in render_markdown(tmp_path)
    _put(tmp_path, PAGES + 1, "A")
    sentence = f"1 older stack has no page of its own: for the page of one, {_HOW}."
    assert sentence in render_markdown(tmp_path)


def _panel(gpu: str, framework: str, emulated: bool) -> Panel:
    stack = {**samples.STACK, "gpu": gpu, "framework": framework}
    source = Source("p", gpu, "s", samples.document("context", "torch", stack=stack))
    return Panel(Store(Path(), pd.DataFrame(), [source]), gpu, emulated, (0,), ())


@given(st.lists(st.tuples(st.sampled_from("ABCDEFGH"), st.sampled_from("tfc"), st.booleans())))
def test_what_has_a_page_is_the_newest_of_its_kind(kinds: list[tuple[str, str, bool]]) -> None:
    chosen = with_page([_panel(*kind) for kind in kinds])
    assert list(chosen) == sorted(set(chosen))
    assert len(chosen) == min(PAGES, len(kinds))
    assert not kinds or chosen[0] == 0
    gpus = list(dict.fromkeys((gpu, emulated) for gpu, _, emulated in kinds))
    newest = [[(g, e) for g, _, e in kinds].index(gpu) for gpu in gpus]
    assert set(newest[:PAGES]) <= set(chosen)
    frameworks = list(dict.fromkeys(framework for _, framework, _ in kinds))
    if len(gpus) + len(frameworks) - 1 <= PAGES:
        assert {kinds[position][1] for position in chosen} == set(frameworks)
