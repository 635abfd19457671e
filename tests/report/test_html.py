"""The HTML page: valid, small, the store's numbers, the files' bytes; hostile and bad input."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocmark.report import build, sharing, write_report
from allocmark.report.key_figure import key_figure
from allocmark.report.markdown_page import part_text, whole
from allocmark.report.notes import apart
from allocmark.report.page import page
from allocmark.report.stacks import stacks
from allocmark.report.webpage import columns, layout
from allocmark.report.webpage.writer import render
from allocmark.schema.figure import Figure
from allocmark.schema.flags import UNSETTLED
from allocmark.store import csv_text
from allocmark.store.frame import load
from allocmark.store.number_text import format_value
from allocmark.store.table import FLAG_SEPARATOR, Cell, Table
from allocmark.system.message import LANGUAGES
from tests.support import html_samples
from tests.support import report_samples as samples
from tests.support.html_samples import Made, published

LARGEST_BYTES = 3_000_000
LATENCY = "allocation-latency-with-and-without-the-cache"
STATEMENTS = "the-document-s-statements-and-their-verdicts"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&`{{ 7*7 }}\n\u202e"


@cache
def _parsed(text: str) -> Element:
    """Return the document; raises where HTML5 sees an error."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    root: Element = parser.parse(text)
    return root


def _by_id(root: Element) -> dict[str, Element]:
    found: dict[str, Element] = {}
    for element in root.iter():
        if (name := element.get("id")) is not None:
            assert name not in found, f"two elements are named {name}"
            found[name] = element
    return found


def _text(element: Element) -> str:
    """Return what an English reader sees."""
    parts = [element.text or ""]
    for child in element:
        if child.get("lang") != "zh":
            parts.append(_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _tables(made: Made) -> list[Table]:
    return [table for section in made.part.sections for table in section.tables]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("results")
    samples.everything(root)
    return html_samples.made(root)


def test_the_published_page_is_valid_small_and_asks_for_nothing() -> None:
    html = published().html
    root = _parsed(html)
    places = _by_id(root)
    for element in root.iter():
        for name in ("src", "href", "action", "data", "srcset", "poster"):
            target = element.get(name) or element.get(f"{{http://www.w3.org/1999/xlink}}{name}")
            if target is not None:
                assert target.startswith("data:") or target[1:] in places, target
        assert not [name for name in element.attrib if str(name).startswith("on")]
    assert "@import" not in html
    assert len(html.encode()) < LARGEST_BYTES


def _check_numbers(made: Made) -> int:
    """Assert that every number on the page is a row of the store; return how many."""
    places = _by_id(_parsed(made.html))
    anchors = layout.anchors(made.part)
    checked = 0
    for table in _tables(made):
        shown = places[anchors[table.id]].findall(".//tbody//*[@data-v]")
        cells = [cell for row in apart(table)[0].rows for cell in row if cell.value is not None]
        if table.id.startswith("verdicts"):  # Shown claim by claim: see below.
            continue
        assert len(shown) == len(cells)
        for element, cell in zip(shown, cells, strict=True):
            _check_number(made, element, cell)
        checked += len(shown)
    for one in made.part.judged:
        shown = places[f"claim-{one.claim.id}"].findall(".//data")
        for element, evidence in zip(shown, one.verdict.evidence, strict=True):
            _check_number(made, element, evidence.cell)
        checked += len(shown)
    return checked


def _check_number(made: Made, element: Element, cell: Cell) -> None:
    """Assert that an element shows the value that the store's rows give, and reads like it."""
    raw = element.get("data-v") or element.get("value") or ""
    rows = [float(made.store.figures["value"][index]) for index in cell.rows]
    if cell.function:
        assert float(raw) == cell.function(rows)
    else:
        assert [float(raw)] == rows
    # What is read is the value, rounded: its leading digits come first in the text.
    digits = format_value(float(raw), cell.unit).split(" ")[0].rstrip("0").rstrip(".")
    # The steps of a request have one unit for all their costs.
    in_us = f"{float(raw) / 1000:,.3g}".split(".")[0] if "µs" in _text(element) else digits
    assert digits in _text(element) or in_us in _text(element)


def test_every_number_is_a_row_of_the_store(small: Made) -> None:
    assert _check_numbers(small) > 50
    assert _check_numbers(published()) > 5000


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.tuples(st.text(max_size=8), st.sampled_from(["a", "b"])),
        st.floats(0, 1e15) | st.none(),
        min_size=1,
        max_size=6,
    )
)
def test_any_values_and_names_keep_the_page_valid_and_true(
    tmp_path_factory: pytest.TempPathFactory, cells: dict[tuple[str, str], float | None]
) -> None:
    root = tmp_path_factory.mktemp("results")
    for subject in ("a", "b"):
        figures = [
            Figure(
                "segments", "segments", "exact", "counters", {"workload": workload}, value,
                reason="none" if value is None else None,
            )
            for (workload, owner), value in cells.items() if owner == subject
        ]  # fmt: skip
        samples.put(root, samples.document("fragmentation", subject, figures))
    _check_numbers(html_samples.made(root, drawn=False))


def test_a_download_is_the_file_that_is_written_beside_the_page(small: Made) -> None:
    buttons = {
        element.get("data-name", ""): element.get("data-csv", "")
        for element in _parsed(small.html).iter("button")
        if element.get("data-csv")
    }
    anchors = layout.anchors(small.part)
    assert len(buttons) > 30
    for table in (table for table in _tables(small) if apart(table)[0].rows):
        packed = buttons[f"{anchors[table.id]}.csv"]
        assert zlib.decompress(base64.b64decode(packed)).decode() == csv_text.table(table)


def test_every_verdict_that_has_a_figure_shows_it_in_its_row() -> None:
    made = published()
    places = _by_id(_parsed(made.html))
    keys = {one.claim.id: key_figure(one) for one in made.part.judged}
    for claim, key in keys.items():
        (summary,) = places[f"claim-{claim}"].findall("summary")
        shown = [_text(element) for element in summary.iter("strong")]
        assert shown == ([key.marked] if key else [])
        assert key is None or str(key.what) in _text(summary)
    # The figure is that of the document's table, where it has one.
    names = {claim: key.name for claim, key in keys.items() if key}
    assert names["pt-empty-cache"] == "returned" and names["tf-greedy"] == "share"
    assert names["rule-30"] == "split"


def test_the_first_screen_has_no_counts_of_samples_in_brackets() -> None:
    (cards,) = (e for e in _parsed(published().html).iter("ul") if e.get("class") == "cards")
    assert cards.findall(".//a[@title]")
    assert not re.search(r"\(.*(reading|figure)", _text(cards))


def test_conditions_are_said_once_and_none_is_lost() -> None:
    tables = _tables(published())
    common = sharing.shared(tables)
    for table in tables:
        said = dict(common) | dict(sharing.own(table, common))
        lacking = set(sharing.lacking(table, common))
        assert {name: text for name, text in said.items() if name not in lacking} == dict(
            table.conditions
        )
    once = sharing.repeated(tables, common)
    own = [pair for table in tables for pair in sharing.own(table, common) if pair not in once]
    # Less than half of it: tables that were measured on another host than most say that.
    assert len(str(own)) < 0.5 * sum(len(str(table.conditions)) for table in tables)
    # What is long stands on the page once, and each table that it holds for points to it.
    html = published().html
    assert once
    for number, pair in enumerate(once, 1):
        assert html.count(f'<div id="condition-{number}">') == 1
        holding = sum(pair in table.conditions for table in tables)
        assert 1 <= html.count(f'href="#condition-{number}"') <= holding


def test_a_wide_table_keeps_its_ends_and_what_fits() -> None:
    assert columns.hidden(2, [100.0] * 11) == ()
    hidden = columns.hidden(3, [100.0] * 18)
    assert len(hidden) == 7
    assert {0, 1, 2, 3, 17}.isdisjoint(hidden)
    assert columns.hidden(1, [2000.0] * 4) == (2,), "the ends stay, however wide they are"


def _marked(element: Element) -> bool:
    """Whether a figure of the page bears a mark, or words that say that it has not settled."""
    return "not settled" in _text(element) or element.find(".//sup") is not None


def test_what_is_worked_out_of_an_unsettled_figure_is_marked_everywhere(small: Made) -> None:
    """A † that a cell has stays with all that follows from the cell: sums, shares, verdicts."""
    for made in (small, published()):
        flags = made.store.figures["flags"]
        root = _parsed(made.html)
        parents = {child: parent for parent in root.iter("p") for child in parent}
        places, anchors = _by_id(root), layout.anchors(made.part)
        derived = 0
        for table in (table for table in _tables(made) if not table.id.startswith("verdicts")):
            shown = places[anchors[table.id]].findall(".//tbody//*[@data-v]")
            cells = [cell for row in apart(table)[0].rows for cell in row if cell.value is not None]
            for element, cell in zip(shown, cells, strict=True):
                if _rests_on_unsettled(flags, cell):
                    assert _marked(parents.get(element, element)), (table.id, cell.text)
                    derived += bool(cell.function)
        for one in made.part.judged:
            shown = places[f"claim-{one.claim.id}"].findall(".//data")
            for element, evidence in zip(shown, one.verdict.evidence, strict=True):
                if _rests_on_unsettled(flags, evidence.cell):
                    assert "not settled" in _text(element), (one.claim.id, evidence.name)
                    assert evidence.marked.startswith("≈")
        assert made is small or derived > 2


def _rests_on_unsettled(flags: Any, cell: Cell) -> bool:
    told = {flag for index in cell.rows for flag in str(flags[index]).split(FLAG_SEPARATOR)}
    of_values = cell.function is None or cell.function.of_values
    return of_values and not UNSETTLED.isdisjoint(told)


def test_a_table_without_figures_is_one_line_with_its_reason(tmp_path: Path) -> None:
    reason = "rmm cannot be imported here (No module named 'rmm')"
    figure = Figure("held_bytes", "bytes", "exact", "none", {"pool": "p"}, reason=reason)
    samples.put(tmp_path, samples.document("streams", "rmm-pool", [figure]))
    made = html_samples.made(tmp_path, drawn=False)
    line = _by_id(_parsed(made.html))["streams-held-bytes"]
    assert line.tag == "p"
    assert reason in _text(line)


def test_what_was_measured_comes_before_statements_of_which_it_decides_none(
    tmp_path: Path, small: Made
) -> None:
    samples.put(tmp_path, samples.latency("cuda-malloc", 40_000))
    made = html_samples.made(tmp_path, drawn=False)
    root = _parsed(made.html)
    sections = [e.get("id") or "" for e in root.iter("section") if e.get("class") == "part"]
    assert [sections.index(name) for name in (LATENCY, STATEMENTS)] == [0, 2]
    assert "tally" not in _by_id(root)
    sentence = f"decides none of the {len(made.part.judged)} statements"
    assert _text(root).count(sentence) == 1
    (link,) = [e for e in root.iter("a") if e.get("href") == f"#{STATEMENTS}" and "All" in _text(e)]
    assert link is not None
    # With a single verdict they lead, as ever.
    whole_root = _parsed(small.html)
    sections = [e.get("id") or "" for e in whole_root.iter("section") if e.get("class") == "part"]
    assert sections.index(STATEMENTS) < sections.index(LATENCY)
    assert "decides none" not in _text(whole_root) and "tally" in _by_id(whole_root)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    figures = [
        Figure("waste_ratio", "ratio", "exact", HOSTILE, {"workload": HOSTILE}, 0.5),
        Figure("waste_ratio", "ratio", "exact", "counters", {"workload": "w"}, 0.25),
        Figure("ooms", "failures", "exact", "none", {"workload": HOSTILE}, reason=HOSTILE),
    ]
    named = samples.document(
        "fragmentation",
        "cuda-malloc",
        figures,
        stack={**samples.STACK, "gpu": HOSTILE, HOSTILE: "x", "torch": HOSTILE},
        conditions={HOSTILE: HOSTILE},
        command=HOSTILE,
    )
    samples.put(tmp_path, named, machine="<i>m", stack="<script>alert(1)")
    made = html_samples.made(tmp_path, drawn=False)
    root = _parsed(made.html)
    assert not list(root.iter("img")) and not list(root.iter("i"))
    assert len(list(root.iter("script"))) == 1
    assert "49" not in _text(root).replace("7*7", "")
    assert "\u202e" not in made.html
    assert "<img src=x onerror=alert(1)>" in _text(root)


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    for name in ("one", "two"):
        samples.everything(tmp_path / name)
    pages = [html_samples.made(tmp_path / name, drawn=False).html for name in ("one", "two")]
    assert pages[0] == pages[1]


def test_each_stack_has_its_page_and_an_emulated_one_says_so(tmp_path: Path) -> None:
    samples.everything(tmp_path / "results")
    for document in (samples.latency("torch-native", 100), samples.context("torch")):
        old = replace(document, emulated=True, started="2026-01-01T00:00:00+00:00")
        samples.put(tmp_path / "results", old, machine="emulated-gpu")
    first = write_report(tmp_path / "results", tmp_path / "report")
    other = tmp_path / "report" / "emulated-gpu" / "index.html"
    assert first == tmp_path / "report" / "index.html"
    assert "<html lang=en>" in first.read_text()
    assert "Emulated GPU" not in first.read_text()
    assert "Emulated GPU" in other.read_text()
    linked = re.findall(r"href=\"?([^\"# >]+index\.html)", first.read_text())
    assert linked == ["emulated-gpu/index.html"]
    assert "../index.html" in other.read_text()


@pytest.mark.parametrize("processes", [False, True])
def test_another_language_adds_files_and_changes_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: bool
) -> None:
    """What is tracked in a clone stays as it is, whoever reads it in which language."""
    samples.everything(tmp_path / "results")
    old = replace(samples.context("torch"), emulated=True, started="2026-01-01T00:00:00+00:00")
    samples.put(tmp_path / "results", old, machine="emulated-gpu")
    write_report(tmp_path / "results", tmp_path / "report")
    before = _files(tmp_path / "report")
    monkeypatch.setattr(build, "_MANY", 2 if processes else 9)
    first = write_report(tmp_path / "results", tmp_path / "report", "zh")
    after = _files(tmp_path / "report")
    pages = {name for name in before if name.endswith((".md", ".html"))}
    assert first == tmp_path / "report" / "index.zh.html"
    assert after.keys() - before.keys() == {re.sub(r"(\.\w+)$", r".zh\1", name) for name in pages}
    assert {name: after[name] for name in before} == before
    write_report(tmp_path / "results", tmp_path / "again", "zh")
    assert _files(tmp_path / "again") == after, "the same results give the same bytes"
    text = first.read_text()
    assert "<html lang=zh>" in text
    assert re.findall(r"href=\"?([^\"# >]+html)", text) == ["emulated-gpu/index.zh.html"]
    assert "../index.zh.html" in after["emulated-gpu/index.zh.html"].decode()


def _files(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_bad_files_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    good = samples.put(tmp_path, samples.fragmentation("torch-native", 0.1, 120))
    (good.parent / "latency.torch-native.json.gz").write_bytes(b"no gzip")
    newer = zlib.compress(json.dumps({"schema": 99}).encode(), wbits=31)
    (good.parent / "context.torch.json.gz").write_bytes(newer)
    places = _by_id(_parsed(html_samples.made(tmp_path, drawn=False).html))
    told = _text(places["left-out"])
    assert "latency.torch-native.json.gz is damaged" in told
    assert "has schema 99" in told
    assert "fragmentation-waste-ratio" in places
    warned: list[str] = []
    write_report(tmp_path, tmp_path / "report", warn=warned.append)
    (sentence,) = warned
    assert sentence.startswith("left out, 2 files in whole or in part: the first: ")
    assert "context.torch.json.gz" in sentence


def test_the_markdown_says_the_same_in_chinese() -> None:
    made = published()
    english, chinese = (whole(made.page, [part_text(made.part, each)], each) for each in LANGUAGES)
    assert chinese.startswith("# GPU 显存究竟如何分配")
    assert "全部为空：" in chinese and "<summary>测量条件</summary>" in chinese
    rows = [[line for line in text.splitlines() if line[:1] == "|"] for text in (english, chinese)]
    assert len(rows[0]) == len(rows[1]) > 2000
    for one, other in zip(*rows, strict=True):
        assert one.count(" | ") == other.count(" | ")
        # A sentence may need its figures in another order, and spells small ones out.
        numbers = (sorted(re.findall(r"\d+[.,]\d+", row)) for row in (one, other))
        assert next(numbers) == next(numbers), one


def test_other_stacks_stand_beside_the_newest(tmp_path: Path) -> None:
    slower = {**samples.STACK, "driver": "590.1"}
    samples.everything(tmp_path)
    for run in ("1", "2", "3"):
        new = samples.document("latency", "torch-native", samples.latency("t", 1400).figures)
        new = replace(new, stack=slower, started="2026-10-01T00:00:00+00:00", run=run)
        samples.put(tmp_path, new, stack=f"slower-{run}")
    store = load(tmp_path)
    shown = page(store)
    beside = stacks(shown.parts[0], shown.parts)
    assert beside is not None
    html = render(shown, shown.parts[0], [], beside=beside)
    section = _by_id(_parsed(html))["stacks"]
    columns_shown = [_text(head).strip() for head in section.findall(".//thead//th")][1:]
    assert columns_shown == [str(shown.parts[0].title), *(other.label for other in beside.others)]
    lines = {_text(line[0]): line for line in section.findall(".//tbody/tr")}
    for place in beside.places:
        values = [float(e.get("value", "")) for e in lines[place].findall(".//data")]
        facing = [beside.cells[place, n].row for n in range(len(beside.others))]
        rows = [row for row in facing if row is not None]
        assert values == [rows[0].a, *(row.b for row in rows)]
    assert beside.cells


def test_hardware_and_emulation_are_never_compared(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    emulated = replace(samples.latency("torch-native", 100), emulated=True)
    samples.put(tmp_path, emulated, machine="emulated-gpu")
    shown = page(load(tmp_path))
    assert [stacks(part, shown.parts) for part in shown.parts] == [None, None]


LEADING = {
    *("context-seconds", "context-total_bytes", "context-processes_bytes"),
    *("latency-hit-allocator", "latency-miss-allocator", "fragmentation-waste_ratio"),
    *("capacity-capacity_ratio", "streams-reserved_bytes", "streams-speedup"),
    *("pressure-shown_bytes", "pressure-kept_bytes", "pressure-completed"),
    *("tensorflow_policy-held_bytes", "tensorflow_policy-returned_bytes"),
    *("several_gpus-mode_bytes", "several_gpus-stray_bytes", "several_gpus-peer-times"),
    *("replay_agreement-peaks-off", "replay_agreement-capacity-tried", "replay_agreement-off"),
    *("rule-scores", "request_path-copy_ns", "request_path-crafted_calls"),
    *("tensorflow_policy-release", "torch-versions"),
}
"""Tables of what was measured that answer their section's question: the others are folded."""


def test_each_table_that_leads_its_section_is_on_the_published_page() -> None:
    tables = [table for section in published().part.sections for table in section.tables]
    found = {table.id for table in tables if table.leading}
    beside = ("document-", "names-", "verdicts", "advice")
    assert {name for name in found if not name.startswith(beside)} == LEADING
