"""The whole report: golden pages and tables, the source of each number, hostile and bad input."""

from __future__ import annotations

import csv
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocmark.report import build, render_markdown, write_report
from allocmark.report.notes import EMULATED
from allocmark.report.page import page
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.store.frame import Store, load
from allocmark.store.number_text import format_value
from allocmark.store.table import Table, figure_text
from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.system.units import MIB
from tests.support import report_samples as samples

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = '<img src=x onerror=alert(1)>|`$(rm)`\n# "title"\u202e [a](javascript:b)'


def _tables(store: Store) -> Iterator[Table]:
    for part in page(store).parts:
        for section in part.sections:
            yield from section.tables


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_page_and_tables_equal_the_golden_ones(tmp_path: Path) -> None:
    """Set ALLOCMARK_GOLDEN=write to accept what the code makes now, then read the difference."""
    samples.everything(tmp_path / "results")
    write_report(tmp_path / "results", tmp_path / "report")
    made = {
        name: content
        for name, content in _files(tmp_path / "report").items()
        # Their bytes depend on the version of matplotlib, and the page holds them.
        if not name.endswith((".svg", ".html"))
    }
    if os.environ.get("ALLOCMARK_GOLDEN") == "write":
        for name, content in made.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_bytes(content)
    golden = _files(GOLDEN)
    assert made.keys() == golden.keys()
    for name, content in made.items():
        assert content.decode() == golden[name].decode(), name


def test_the_same_results_give_the_same_bytes(tmp_path: Path) -> None:
    samples.everything(tmp_path / "results")
    for name in ("one", "two"):
        write_report(tmp_path / "results", tmp_path / name)
    assert _files(tmp_path / "one") == _files(tmp_path / "two")


def test_parts_made_in_other_processes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples.everything(tmp_path / "results")
    samples.put(tmp_path / "results", samples.fragmentation("torch-native", 0.1, 77), machine="b")
    for name, many in (("here", 9), ("elsewhere", 2)):
        monkeypatch.setattr(build, "_MANY", many)
        write_report(tmp_path / "results", tmp_path / name)
    assert _files(tmp_path / "here") == _files(tmp_path / "elsewhere")


def _check_cells(store: Store) -> int:
    """Assert that every number shown is a row of the store, or a named function of rows, as it is
    printed; return how many are rows."""
    rows: dict[Any, dict[str, Any]] = cast(Any, store.figures.to_dict("index"))
    checked = 0
    for table in (table for table in _tables(store) if table.id != "verdicts-tally"):
        for cell in (cell for row in table.rows for cell in row if cell.value is not None):
            sources = [rows[index] for index in cell.rows]
            if cell.function:
                values = [row["value"] for row in sources]
                assert cell.value == cell.function(values)
                assert str(cell.text).endswith(format_value(cell.value, cell.unit))
            else:
                (row,) = sources
                printed = (str(figure_text(row, "median")), str(figure_text(row, "range")))
                exact = not table.id.startswith("document-")
                text = str(cell.text)
                assert text in printed if exact else text.endswith(printed)
                assert cell.value == row["value"]
                checked += 1
    return checked


def test_every_number_is_a_row_of_the_store(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    assert _check_cells(load(tmp_path)) > 50


def test_every_figure_is_shown(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    store = load(tmp_path)
    shown = {index for t in _tables(store) for row in t.rows for cell in row for index in cell.rows}
    assert shown == set(store.figures.index)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.tuples(st.text(max_size=8), st.sampled_from(["a", "b"])),
        st.floats(0, 1e15) | st.none(),
        min_size=1,
        max_size=6,
    )
)
def test_any_values_and_workloads_are_shown_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, cells: dict[tuple[str, str], float | None]
) -> None:
    root = tmp_path_factory.mktemp("results")
    for subject in ("a", "b"):
        figures = [
            Figure(
                "peak_reserved_bytes", "bytes", "exact", "counters", {"workload": workload}, value,
                reason="none" if value is None else None,
            )
            for (workload, owner), value in cells.items()
            if owner == subject
        ]  # fmt: skip
        samples.put(root, samples.document("fragmentation", subject, figures))
    store = load(root)
    expected = sum(value is not None for value in cells.values())
    assert _check_cells(store) == 2 * expected  # At a glance, and in the vector of its workload.
    assert render_markdown(root) == render_markdown(root)


def test_hostile_names_are_shown_as_text(tmp_path: Path) -> None:
    named = samples.document(
        "fragmentation",
        "=cmd",
        [
            Figure(
                "peak_reserved_bytes", "bytes", "exact", HOSTILE, {"workload": HOSTILE}, 5.0,
                flags=(HOSTILE,),
            ),
            Figure("ooms", "failures", "exact", "none", {"workload": HOSTILE}, reason=HOSTILE),
        ],
        stack={**samples.STACK, "gpu": HOSTILE, HOSTILE: "x"},
        conditions={HOSTILE: HOSTILE},
        failures=[Failure(HOSTILE, HOSTILE)],
        command=HOSTILE,
    )  # fmt: skip
    samples.put(tmp_path / "results", named, machine="<b>m|`x`", stack="[s](t)")
    write_report(tmp_path / "results", tmp_path / "report")
    files = sorted((tmp_path / "report").rglob("*.md"))
    text = "\n".join(path.read_text() for path in files)
    for raw in ("<img", "<b>", "\u202e", "`$(", '\n# "title'):
        assert raw not in text, raw
    assert not re.search(r"(?<!\\)\]\((javascript|t)", text)
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "&lt;U+202E&gt;" in text
    for name, content in _files(tmp_path / "report").items():
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-./README")
        if name.endswith(".svg"):
            assert b"<img" not in content
        if name.endswith(".csv"):
            lines = list(csv.reader(content.decode().splitlines()))
            assert not any(cell.startswith(("=", "@")) for line in lines for cell in line)
            assert len({len(line) for line in lines}) == 1


def test_emulated_results_stand_under_their_band_apart_from_hardware(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    assert str(EMULATED) not in render_markdown(tmp_path)
    emulated = replace(samples.fragmentation("torch-native", 0.1, 77), emulated=True)
    samples.put(tmp_path, emulated, machine="emulated")
    text = render_markdown(tmp_path)
    hardware, _, below = text.partition("## emulated")
    assert "77 MiB" not in hardware
    tables = below.split("\n#### ")[1:]
    assert tables
    assert all(str(EMULATED) in table for table in tables)
    # The contents say which is which; only a page of nothing else is emulated as a whole.
    contents = text[: text.index("\n## ")]
    assert str(EMULATED) not in contents
    assert contents.count("(emulated)") == 1


def test_a_page_of_emulated_results_alone_says_so_first(tmp_path: Path) -> None:
    emulated = replace(samples.fragmentation("torch-native", 0.1, 77), emulated=True)
    samples.put(tmp_path, emulated, machine="emulated")
    text = render_markdown(tmp_path)
    assert text.index(str(EMULATED)) < text.index("\n## ")


def test_who_has_just_measured_finds_it_first(tmp_path: Path) -> None:
    old = samples.fragmentation("torch-native", 0.1, 77)
    samples.put(tmp_path, old, machine="a-old")
    new = replace(old, started="2031-01-01T00:00:00Z")
    samples.put(tmp_path, new, machine="z-new")
    assert [part.slug for part in page(load(tmp_path)).parts] == ["z-new", "a-old"]


def test_emulated_and_hardware_of_one_machine_name_are_not_mixed(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.fragmentation("torch-native", 0.1, 120))
    twin = replace(samples.fragmentation("cuda-malloc", 0.1, 130), emulated=True)
    samples.put(tmp_path, twin, stack="emulated")
    assert [part.panel.emulated for part in page(load(tmp_path)).parts] == [False, True]


def test_the_newest_full_run_is_shown_and_others_are_named(tmp_path: Path) -> None:
    quick = samples.fragmentation("torch-native", 0.1, 111)
    full = replace(quick, profile="full", run="old", started="2026-10-01T00:00:00+00:00")
    newer = samples.fragmentation("torch-native", 0.1, 133)
    newer = replace(newer, profile="full", run="new", started="2026-10-05T00:00:00+00:00")
    samples.put(tmp_path, quick)
    samples.put(tmp_path, full, stack="torch2.10-cu130")
    samples.put(tmp_path, newer)
    text = render_markdown(tmp_path)
    assert "133 MiB" in text
    assert "111 MiB" not in text
    assert "- torch2.11-cu130: full run of 2026-10-05 (fragmentation)\n" in text
    assert "- not shown: full run of 2026-10-01 on torch2.10-cu130\n" in text
    assert "- not shown: quick run of 2026-11-01 on torch2.11-cu130\n" in text


def test_a_run_that_did_not_come_to_it_hides_no_older_one(tmp_path: Path) -> None:
    quick = samples.fragmentation("torch-native", 0.1, 111)
    stopped = [Failure("run", "the run was stopped before")]
    blank = samples.document("fragmentation", "torch-native", profile="full", failures=stopped)
    samples.put(tmp_path, quick)
    samples.put(tmp_path, blank)
    assert "111 MiB" in render_markdown(tmp_path)


def test_frameworks_of_one_gpu_and_driver_share_tables(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.fragmentation("torch-native", 0.1, 120))
    samples.put(tmp_path, samples.fragmentation("tf-growth", 0.2, 130), stack="tf2.21")
    (part,) = page(load(tmp_path)).parts
    tables = {table.id: table for section in part.sections for table in section.tables}
    glance = tables["fragmentation-waste_ratio"]
    assert [str(row[0].text) for row in glance.rows] == ["torch-native", "tf-growth"]


def test_another_driver_has_its_own_part(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.fragmentation("torch-native", 0.1, 120))
    other = samples.fragmentation("torch-native", 0.1, 120)
    other = replace(other, stack={**samples.STACK, "driver": "590.2"})
    samples.put(tmp_path, other, stack="newer")
    assert len(page(load(tmp_path)).parts) == 2


def test_damaged_files_are_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    bad = tmp_path / "test-gpu" / "torch2.11-cu130" / "quick" / "streams.x.json.gz"
    bad.write_bytes(b"broken")
    text = render_markdown(tmp_path)
    assert "## Left out\n\n- test-gpu/torch2.11-cu130/quick/streams.x.json.gz is damaged" in text
    assert str(tmp_path) not in text
    assert "120 MiB" in text


def test_an_empty_cell_has_its_reason_under_the_table(tmp_path: Path) -> None:
    samples.everything(tmp_path)
    alone = _smallest_capacities(tmp_path)
    assert "| torch-native | 110 MiB ‡ |\n" in alone
    assert "- n/a throughout: uniform: left out after 40 s" in alone
    training, uniform = samples.capacity("torch-roundup4").figures
    found = replace(training, axes=uniform.axes, value=200 * MIB)
    samples.put(tmp_path, samples.document("capacity", "torch-roundup4", [found]))
    table = _smallest_capacities(tmp_path)
    assert "| torch-native | 110 MiB ‡ | n/a <sup>a</sup> |" in table
    assert "- ‡ a larger capacity fails or a smaller one completes" in table
    assert "- <sup>a</sup> left out after 40 s" in table
    text = render_markdown(tmp_path)
    assert "left out after 40 s" in text[text.index("### What was not measured") :]


def _smallest_capacities(results: Path) -> str:
    _, _, table = render_markdown(results).partition("#### Smallest capacity\n")
    return table[: table.index("\n####")]


def test_a_subject_without_a_figure_says_where_its_probe_ended(tmp_path: Path) -> None:
    samples.put(tmp_path, samples.fragmentation("torch-native", 0.1, 120))
    figure = Figure("waste_ratio", "ratio", "exact", "counters", {"workload": "training"}, 0.5)
    failure = Failure("uniform", "the process was ended by SIGKILL")
    ended = samples.document("fragmentation", "cuda-malloc", [figure], failures=[failure])
    samples.put(tmp_path, ended)
    assert "not reached: uniform: the process was ended by SIGKILL" in render_markdown(tmp_path)


def test_no_results_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="no results below") as caught:
        write_report(tmp_path / "results", tmp_path / "report")
    assert caught.value.exit_code == 2
    assert not (tmp_path / "report").exists()


def test_an_unknown_language_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown language 'fr': choose from en, zh"):
        write_report(tmp_path, tmp_path, "fr")


def test_four_times_the_files_take_about_four_times_as_long(tmp_path: Path) -> None:
    def seconds(files: int) -> float:
        root = tmp_path / str(files)
        for n in range(files):
            samples.put(root, samples.fragmentation(f"torch-{n}", 0.1, 100))
        taken = []
        for _ in range(2):
            begin = time.process_time()
            page(load(root))
            taken.append(time.process_time() - begin)
        return min(taken)

    # Linear with what each page takes, however little it shows; quadratic is 16 times.
    assert seconds(160) < 7 * seconds(40)
