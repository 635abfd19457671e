"""The odd machine among equals, from documents to the command's answer."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocmark.compare.thresholds import load
from allocmark.fleet.reading import read
from allocmark.fleet.searching import search
from allocmark.fleet.spread import away, row_medians
from allocmark.report import fleet as shown
from allocmark.schema import documents
from allocmark.schema.documents import write
from allocmark.schema.figure import Figure
from allocmark.store import columns
from allocmark.system.errors import AllocmarkError
from tests.support.command import allocmark
from tests.support.compare_samples import CONDITIONS, FACTS, document, exact, hits, put

MIB = 1 << 20


def _machine(
    root: Path,
    name: str,
    *,
    runs: int = 3,
    slower: float = 1.0,
    segments: int = 12,
    facts: Mapping[str, Any] = FACTS,
    lost: bool = False,
) -> None:
    """Write the runs of one machine, each into a results folder of its own."""
    where = {**CONDITIONS, "host_name": name, "gpu_uuid": f"GPU-{name}"}
    for run in range(runs):
        seed = sum(map(ord, name)) * 10 + run
        common: dict[str, Any] = {"run": f"{name}{run}", "conditions": where, "facts": facts}
        counted = exact("peak_segments", segments, workload="uniform")
        if lost:
            counted = Figure("peak_segments", "count", "exact", "counters", {"workload": "uniform"},
                             reason="the device was lost")  # fmt: skip
        folder = root / name / str(run)
        put(folder, document(*hits(seed, process=slower), **common))
        put(folder, document(counted, probe="fragmentation", **common))


def _fleet(root: Path, count: int = 8, **odd: Any) -> None:
    for number in range(count):
        _machine(root, f"node{number}", **(odd if number == count - 1 else {}))


def test_equals_are_all_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fleet(tmp_path)
    assert allocmark("fleet", str(tmp_path)) == 0
    assert capsys.readouterr().out == (
        "8 machines of Test GPU, torch, quick (24 runs, 21 figures): none is odd\n"
    )


def test_one_count_off_is_named_to_the_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _fleet(tmp_path, segments=13)
    assert allocmark("fleet", str(tmp_path)) == 1
    assert capsys.readouterr().out.splitlines() == [
        "8 machines of Test GPU, torch, quick (24 runs, 21 figures): 1 odd, worst first: "
        "node7 GPU-node7",
        "",
        "node7 GPU-node7: 1 worse, 3 runs",
        "  worse   fragmentation/torch-native/peak_segments workload=uniform (counters)  "
        "13 instead of 12: 7 of 8 machines have the other value",
    ]


def test_a_slow_machine_is_named_with_its_interval_and_facts(tmp_path: Path) -> None:
    old = {**FACTS, "driver": "570.1"}
    _fleet(tmp_path, slower=1.15, facts=old)
    (kind,) = search([tmp_path]).kinds
    (odd,) = kind.named
    assert odd.name == "node7 GPU-node7" and kind.machines[0] is odd
    assert [(fact.name, fact.value, fact.others) for fact in odd.facts] == [
        ("driver", "570.1", "580.1")
    ]
    first = odd.odd[0]
    assert (first.scope, first.verdict, first.name) == ("all", "worse", "mean of 20 hits")
    assert first.ratio == pytest.approx(1.15, rel=0.03)
    assert first.low is not None and first.high is not None
    assert 1 < first.low < 1.15 < first.high
    assert first.strip[0] == pytest.approx(1.15, rel=0.03) and len(first.strip) == 8
    told = json.loads(shown.as_json(search([tmp_path])))
    assert told["kinds"][0]["named"] == ["node7 GPU-node7"]
    assert "## Test GPU, torch, quick" in shown.as_markdown(search([tmp_path]))


def test_a_lost_figure_has_its_reason(tmp_path: Path) -> None:
    _fleet(tmp_path, lost=True)
    (kind,) = search([tmp_path]).kinds
    assert not kind.named
    (lacking,) = [machine for machine in kind.machines if machine.missing]
    assert lacking.missing == 1 and "the device was lost" in lacking.missing_reason
    assert "node7 GPU-node7 lacks 1 figure" in shown.as_text(search([tmp_path]))


def test_half_against_half_names_nobody(tmp_path: Path) -> None:
    for number in range(4):
        _machine(tmp_path, f"node{number}", segments=12 + number % 2)
    (kind,) = search([tmp_path]).kinds
    assert not kind.named and kind.without_majority == 1
    assert "nobody is named by these" in shown.as_text(search([tmp_path]))


def test_machines_are_told_apart_by_name_by_host_or_by_folder(tmp_path: Path) -> None:
    for name, facts, where in (
        ("a", {**FACTS, "machine": "test-gpu-lab3"}, {"host_name": "one"}),
        ("b", FACTS, {"host_name": "one", "gpu_uuid": "GPU-0123456789abcdef"}),
        ("c", FACTS, {}),
    ):
        one = document(exact("n", 1), facts=facts, conditions={**CONDITIONS, **where})
        put(tmp_path / name, one)
    (kind,), alone, damaged = read([tmp_path], load())
    assert sorted(kind.machines) == sorted(["lab3", "one GPU-01234567", str(tmp_path / "c")])
    assert not alone and not damaged


def test_without_equals_there_is_nothing_to_say(tmp_path: Path) -> None:
    _machine(tmp_path, "node0")
    with pytest.raises(AllocmarkError, match="no machine has an equal"):
        search([tmp_path])
    with pytest.raises(AllocmarkError, match="no results below"):
        search([tmp_path / "none"])


def test_the_columnar_form_is_made_of_the_documents_and_made_anew(tmp_path: Path) -> None:
    one = document(exact("peak_segments", 7, workload="uniform"), *hits(1, count=2))
    path = put(tmp_path, one)
    folder = path.parent
    table = columns.read(folder).table()
    assert (folder / columns.FILE_NAME).is_file()
    cells = dict(zip(table["cell"].to_pylist(), table["value"].to_pylist(), strict=True))
    assert cells["latency/torch-native/peak_segments workload=uniform (counters)"] == 7
    assert columns.figure_id("a/b/c x=1 (counters)") == "a/b/c x=1"
    written = (folder / columns.FILE_NAME).stat().st_mtime_ns
    columns.read(folder)
    assert (folder / columns.FILE_NAME).stat().st_mtime_ns == written
    write(path, document(exact("peak_segments", 8, workload="uniform")))
    assert columns.read(folder).table()["value"].to_pylist() == [8]
    (folder / columns.FILE_NAME).write_bytes(b"PAR1 damaged")
    assert columns.read(folder).table()["value"].to_pylist() == [8]


def test_results_that_may_only_be_read_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path, document(exact("n", 7))).parent

    def refuse(path: Path, content: bytes) -> None:
        raise OSError(30, os.strerror(30), str(path))

    monkeypatch.setattr(documents, "write_whole", refuse)
    assert columns.read(folder).table()["value"].to_pylist() == [7]
    assert not (folder / columns.FILE_NAME).exists()


def test_the_distance_is_from_the_others_by_hand() -> None:
    values = np.log(np.array([[1.0, 1.0, 1.0, 1.0, 1.2]]))
    found = away(values, np.array([0.0003]), np.array([0.0001]), np.full(5, 3.0))
    assert found.difference[0].tolist() == pytest.approx([0, 0, 0, 0, np.log(1.2)])
    # The others agree, so that the prior alone is left: (8 * 0.0002 + 0.37 * 3 * 0) / (8 + 1.11).
    error = (8 * 0.0002 / 9.11 * (1 + np.pi / 2 / 4)) ** 0.5
    assert found.half[0, 4] / error == pytest.approx(2.257, abs=0.002)  # t of 9.11 degrees, 97.5 %.
    assert row_medians(np.array([[3.0, np.nan, 1.0], [np.nan] * 3])).tolist()[0] == 2.0


def test_the_page_has_a_strip_of_all_machines_in_both_languages(tmp_path: Path) -> None:
    _fleet(tmp_path / "runs", slower=1.15)
    page = tmp_path / "fleet.html"
    assert allocmark("fleet", str(tmp_path / "runs"), "--page", str(page)) == 1
    text = page.read_text()
    first = text[text.index("<svg") : text.index("</svg>")]
    assert first.count("<circle") == 8 and first.count("class=own") == 1
    assert "node7 GPU-node7" in text and "<span lang=zh>" in text
    assert "http" not in text and "<script" not in text


def test_one_damaged_file_hides_nothing_of_the_others(tmp_path: Path) -> None:
    _fleet(tmp_path, segments=13)
    next((tmp_path / "node0" / "0").rglob("latency*.gz")).write_bytes(b"no document")
    text = shown.as_text(search([tmp_path]))
    assert "1 odd, worst first: node7 GPU-node7" in text
    assert "left out: " in text and "is damaged" in text


def test_documents_are_opened_once_and_columns_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand runs are read in the time of ten: by their columns alone."""
    _fleet(tmp_path, segments=13)
    first = shown.as_json(search([tmp_path]))

    def refuse(*_: Any) -> Any:
        raise AssertionError("a document was opened")

    monkeypatch.setattr(documents, "read", refuse)
    assert shown.as_json(search([tmp_path])) == first
