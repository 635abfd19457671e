"""The store: every usable figure as a row, and everything unusable named."""

from __future__ import annotations

import gzip
import json
import math
import os
import resource
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from allocmark.schema.documents import Document, path_of, write
from allocmark.schema.figure import Figure, Series
from allocmark.store import reading
from allocmark.store.frame import Store, load
from allocmark.store.frame_columns import FIXED_COLUMNS
from allocmark.system.errors import AllocmarkError
from tests.support import budgets


def _document(*figures: Figure, subject: str = "torch-native", run: str = "r1") -> Document:
    return Document(
        "latency",
        subject,
        "quick",
        run,
        "2026-11-01T00:00:00+00:00",
        1.0,
        "allocmark run",
        "0.1.0",
        False,
        {"gpu": "Test GPU"},
        {},
        figures,
        [Series("memory", {}, {"event": [0, 1]})],
    )


def _put(root: Path, document: Document, machine: str = "m", stack: str = "s") -> Path:
    path = path_of(root, machine, stack, document.profile, document.probe, document.subject)
    write(path, document)
    return path


def _figure(value: float = 5.0, **axes: str | int | float | bool) -> Figure:
    return Figure("pair_ns", "ns", "time", "loop", axes, value, [4.0, 5.0, 9.0])


def _rewrite(path: Path, **changes: object) -> None:
    data = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps({**data, **changes}).encode()))


def _reasons(store: Store) -> list[str]:
    return [item.reason for item in store.left_out]


def test_a_figure_is_one_row_with_its_document_and_axes(tmp_path: Path) -> None:
    figure = Figure(
        "pair_ns", "ns", "time", "loop", {"path": "hit", "bytes": 512}, 5.0, [4.0, 5.0, 9.0],
        interval=(4.0, 9.0), flags=("wide-interval", "other"),
    )  # fmt: skip
    _put(tmp_path, _document(figure))
    (row,) = load(tmp_path).figures.to_dict("records")
    assert math.isnan(row.pop("reason"))
    assert row == {
        "document": 0, "machine": "m", "stack": "s", "profile": "quick", "run": "r1",
        "probe": "latency", "subject": "torch-native", "emulated": False,
        "metric": "pair_ns", "unit": "ns", "kind": "time", "meter": "loop",
        "flags": "wide-interval;other", "value": 5.0, "low": 4.0, "high": 9.0, "n": 3.0,
        "minimum": 4.0, "maximum": 9.0, "scaled_to_core_speed": False, "bytes": 512, "path": "hit",
    }  # fmt: skip


def test_counts_are_counted_as_samples(tmp_path: Path) -> None:
    figure = Figure("pair_ns", "ns", "time", "loop", {}, 1.0, [1.0, 2.0], [900, 100])
    _put(tmp_path, _document(figure))
    assert load(tmp_path).figures["n"].tolist() == [1000]


def test_a_reason_is_kept(tmp_path: Path) -> None:
    _put(tmp_path, _document(Figure("pair_ns", "ns", "exact", "none", reason="too big")))
    (row,) = load(tmp_path).figures.to_dict("records")
    assert (row["reason"], math.isnan(row["value"]), row["n"]) == ("too big", True, 0)


def test_an_axis_named_like_a_column_does_not_replace_it(tmp_path: Path) -> None:
    _put(tmp_path, _document(_figure(value=1.0, subject="axis", value_="x")))
    frame = load(tmp_path).figures
    assert frame["subject"].tolist() == ["torch-native"]
    assert frame["axis_subject"].tolist() == ["axis"]


def test_axes_that_only_some_figures_have_are_empty_elsewhere(tmp_path: Path) -> None:
    _put(tmp_path, _document(_figure(path="hit"), _figure(bytes=512), _figure(mixed=True)))
    _put(tmp_path, _document(_figure(mixed="text"), subject="other"))
    frame = load(tmp_path).figures.sort_values("document", ascending=False)
    assert frame["path"].isna().sum() == 3
    assert frame["bytes"].dropna().tolist() == [512]
    assert sorted(map(str, frame["mixed"].dropna())) == ["True", "text"]


def test_series_are_read_when_asked_for(tmp_path: Path) -> None:
    _put(tmp_path, _document(_figure()))
    store = load(tmp_path)
    assert store.sources[0].document.series == ()
    assert store.series(0)[0].columns["event"] == [0, 1]


def test_no_results_is_one_sentence_and_exit_2(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match=r"^no results below .*: measure with") as caught:
        load(tmp_path)
    assert caught.value.exit_code == 2


def test_only_damaged_results_say_what_is_damaged(tmp_path: Path) -> None:
    path = _put(tmp_path, _document(_figure()))
    path.write_bytes(b"no gzip")
    with pytest.raises(AllocmarkError, match="is damaged"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is damaged"),
        (b"no gzip", "is damaged"),
        (gzip.compress(b'{"schema": 1', mtime=0)[:-6], "is damaged"),
        (gzip.compress(b'{"schema": 1', mtime=0), "is damaged"),
        (gzip.compress(b'{"schema": 99}', mtime=0), "has schema 99"),
        (gzip.compress(b'{"other": 1}', mtime=0), "is not an allocmark document"),
        (gzip.compress(b"[]", mtime=0), "is not an allocmark document"),
        (gzip.compress(b'{"schema": 1}', mtime=0), "is damaged"),
    ],
)
def test_an_unusable_file_is_left_out_and_named(
    tmp_path: Path, content: bytes, sentence: str
) -> None:
    _put(tmp_path, _document(_figure()))
    bad = tmp_path / "m" / "s" / "quick" / "latency.bad.json.gz"
    bad.write_bytes(content)
    store = load(tmp_path)
    assert len(store.figures) == 1
    (left_out,) = store.left_out
    assert left_out.path == "m/s/quick/latency.bad.json.gz"
    assert sentence in left_out.reason
    assert str(tmp_path) not in left_out.reason


@pytest.mark.parametrize(
    "figure",
    [
        {"metric": 5, "unit": "ns", "kind": "time", "meter": "loop", "value": 1},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "loop", "value": "much"},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "l", "value": 1, "axes": []},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "l", "value": 1, "axes": {"x": []}},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "l", "value": 1, "samples": ["x"]},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "l", "value": 1, "interval": [1]},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "l", "value": 1, "flags": [1]},
        {"metric": "a", "unit": "ns", "kind": "time", "meter": "l"},
        {"metric": "a"},
        7,
    ],
)
def test_a_figure_of_a_wrong_shape_leaves_its_document_out(tmp_path: Path, figure: object) -> None:
    _put(tmp_path, _document(_figure()))
    path = _put(tmp_path, _document(_figure(), subject="bad"))
    _rewrite(path, figures=[figure])
    store = load(tmp_path)
    assert len(store.figures) == 1
    assert "is damaged" in _reasons(store)[0]


@pytest.mark.parametrize(
    "changes", [{"stack": 5}, {"conditions": None}, {"profile": 3}, {"subject": None}]
)
def test_a_document_of_a_wrong_shape_is_left_out(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    _put(tmp_path, _document(_figure()))
    _rewrite(_put(tmp_path, _document(_figure(), subject="bad")), **changes)
    store = load(tmp_path)
    assert len(store.figures) == 1
    assert len(store.left_out) == 1


def test_a_copy_of_a_document_is_named_and_left_out(tmp_path: Path) -> None:
    path = _put(tmp_path, _document(_figure()))
    copy = path.with_name("latency.copy.json.gz")
    copy.write_bytes(path.read_bytes())
    store = load(tmp_path)
    assert len(store.figures) == 1
    assert "is not where its content belongs" in _reasons(store)[0]


@pytest.mark.parametrize(
    ("place", "changes", "belongs"),
    [
        ("latency.x", {}, "MACHINE/STACK/quick/latency.torch-native"),
        ("m/latency.x", {}, "m/STACK/quick/latency.torch-native"),
        ("m/s/latency.x", {}, "m/s/quick/latency.torch-native"),
        ("m/s/quick/deeper/latency.x", {}, "m/s/quick/latency.torch-native"),
        ("m/s/quick/latency.x", {"profile": "/etc"}, "/etc/latency.torch-native"),
        ("m/s/quick/latency.x", {"profile": "../full"}, "m/s/../full/latency.torch-native"),
    ],
)
def test_a_misplaced_document_is_left_out(
    tmp_path: Path, place: str, changes: dict[str, object], belongs: str
) -> None:
    path = _put(tmp_path, _document(_figure()))
    copy = tmp_path / f"{place}.json.gz"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(path.read_bytes())
    _rewrite(copy, **changes)
    store = load(tmp_path)
    assert len(store.sources) == 1
    assert _reasons(store) == [
        f"{place}.json.gz is not where its content belongs ({belongs}.json.gz): "
        "move it there or delete it"
    ]


def test_an_absurd_value_is_named_and_becomes_an_empty_cell(tmp_path: Path) -> None:
    path = _put(tmp_path, _document(_figure(path="hit"), _figure(path="miss")))
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["figures"][0] |= {"value": -5.0, "samples": [-5.0]}
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    store = load(tmp_path)
    row = store.figures.iloc[0]
    assert math.isnan(row["value"])
    assert math.isnan(row["minimum"])
    assert "cannot be" in row["reason"]
    assert "pair_ns" in _reasons(store)[0]
    assert store.figures.iloc[1]["value"] == 5.0


def test_a_ratio_may_be_negative(tmp_path: Path) -> None:
    _put(tmp_path, _document(Figure("change", "ratio", "exact", "loop", {}, -0.5)))
    store = load(tmp_path)
    assert store.figures["value"].tolist() == [-0.5]
    assert not store.left_out


def test_a_cell_told_twice_is_used_once_and_named(tmp_path: Path) -> None:
    _put(tmp_path, _document(_figure(1.0, path="hit"), _figure(2.0, path="hit")))
    store = load(tmp_path)
    assert store.figures["value"].tolist() == [1.0]
    assert "twice for one cell" in _reasons(store)[0]


def test_asv_files_are_not_documents(tmp_path: Path) -> None:
    _put(tmp_path, _document(_figure()))
    (tmp_path / "m" / "machine.json").write_text("{}")
    (tmp_path / "benchmarks.json").write_text("{}")
    assert not load(tmp_path).left_out


def test_the_same_files_give_the_same_frame(tmp_path: Path) -> None:
    for subject in ("b", "a", "c"):
        _put(tmp_path, _document(_figure(path=subject), subject=subject))
    first, second = load(tmp_path).figures, load(tmp_path).figures
    assert first.equals(second)
    assert tuple(first.columns[: len(FIXED_COLUMNS)]) == FIXED_COLUMNS


@budgets.budget
def test_two_thousand_files_take_ten_seconds_and_two_gigabytes_at_most(tmp_path: Path) -> None:
    # The promise is 30 s for the whole report; a third of it here leaves slack for slow machines.
    # As in a real run, one document in five is large (latency: hits in batches) and the rest small.
    rng = np.random.default_rng(0)
    small = [
        Figure("peak_bytes", "bytes", "exact", "counter", {"workload": f"w{i}"}, float(i))
        for i in range(100)
    ]
    large = [
        Figure(
            "call_ns", "ns", "time", "loop", {"path": "hit", "bytes": 1 << i % 30, "call": f"{i}"},
            700.0, rng.normal(700, 5, 100).round(1).tolist(), interval=(699.0, 701.0),
        )
        for i in range(150)
    ]  # fmt: skip
    subjects = [_document(*(large if i % 5 == 0 else small), subject=f"s{i}") for i in range(20)]
    for document in subjects:
        first = _put(tmp_path, document, machine="m0")
        for i in range(1, 100):
            path = path_of(tmp_path, f"m{i}", "s", "quick", "latency", document.subject)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(first.read_bytes())
    begin = time.process_time()
    store = load(tmp_path)
    seconds = time.process_time() - begin
    assert len(store.sources) == 2000
    assert len(store.figures) == 2000 * (0.2 * 150 + 0.8 * 100)
    budgets.note("frame of 2,000 documents", seconds, 10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20  # In KiB.
    assert store.figures.memory_usage(deep=True).sum() < 100 << 20


def test_several_readers_find_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        _put(tmp_path, replace(_document(_figure()), subject=f"s{n}"))
    (tmp_path / "m" / "stray.json.gz").parent.mkdir(exist_ok=True)
    (tmp_path / "m" / "stray.json.gz").write_bytes(b"damaged")
    alone = load(tmp_path)
    monkeypatch.setattr(reading, "MANY", 1)
    monkeypatch.setattr(reading, "_CHUNK", 2)
    together = load(tmp_path, readers=2)
    assert together.sources == alone.sources
    assert together.left_out == alone.left_out and len(alone.left_out) == 1
    pd.testing.assert_frame_equal(together.figures, alone.figures)


def test_documents_of_two_runs_are_both_kept(tmp_path: Path) -> None:
    document = _document(_figure())
    _put(tmp_path, document)
    _put(tmp_path, replace(document, run="r2", profile="full"))
    assert set(load(tmp_path).figures["run"]) == {"r1", "r2"}


def test_a_pipe_among_the_results_is_named_and_not_waited_for(tmp_path: Path) -> None:
    path = path_of(tmp_path, "m", "s", "quick", "latency", "torch-native")
    write(path, _document(Figure("x_bytes", "bytes", "exact", "m", {}, 1.0)))
    os.mkfifo(tmp_path / "pipe.json.gz")
    assert any("pipe.json.gz is not a file" in item.reason for item in load(tmp_path).left_out)
