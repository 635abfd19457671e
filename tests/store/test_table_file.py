"""The record as one table: as CSV and as Parquet the same figures, and the docs' examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from allocmark.schema.metrics import streams
from allocmark.store import frame, table_file
from tests.support.command import allocmark
from tests.support.compare_samples import document, exact, put

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    held = streams.HELD_BYTES
    of_pool = [held.figure("m", {"pool": pool, "stage": "live"}, 7.5) for pool in ("graph", 3)]
    put(tmp_path / "results", document(exact("ooms", 1), *of_pool))
    return tmp_path / "results"


def test_numbers_are_unrounded_and_axes_of_many_kinds_are_text(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures.csv"
    assert allocmark("convert", str(results), str(out)) == 0
    assert capsys.readouterr().out == f"{out}: 3 figures of 1 documents\n"
    rows = pd.read_csv(out)
    assert list(rows["metric"]) == ["ooms", "held_bytes", "held_bytes"]
    assert list(rows["value"]) == [1.0, 7.5, 7.5]
    assert list(rows["pool"].dropna()) == ["graph", "3"]
    assert "document" not in rows


def test_parquet_holds_what_the_store_holds(tmp_path: Path) -> None:
    out = tmp_path / "figures.parquet"
    table_file.write(ROOT / "results", out)
    rows, held = pd.read_parquet(out), frame.load(ROOT / "results").figures
    assert len(rows) == len(held)
    assert set(rows.columns) == set(held.columns) - {"document"}
    for name in ("value", "low", "high", "n"):
        pd.testing.assert_series_equal(rows[name], held[name])
    for name in ("machine", "metric", "subject", "unit", "reason"):
        assert rows[name].astype(object).fillna("").tolist() == (
            held[name].astype(object).fillna("").tolist()
        )


@pytest.mark.parametrize(
    ("out", "told"), [("t.xls", "unknown ending '.xls'"), ("results/x/t.csv", "cannot be used")]
)
def test_what_cannot_be_written_is_one_sentence(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, told: str
) -> None:
    (results / "x").touch()
    assert allocmark("convert", str(results), str(tmp_path / out)) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_what_is_left_out_is_named(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = results.rglob("*.json.gz")
    path.with_name("streams.x.json.gz").write_bytes(b"nothing")
    assert allocmark("convert", str(results), str(tmp_path / "t.csv")) == 0
    assert "left out: " in capsys.readouterr().err


def test_the_examples_of_the_docs_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed (extra test)")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(ROOT / "results")
    assert allocmark("convert", "results", "figures.parquet") == 0
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    capsys.readouterr()
    needs, hits, samples = [_printed(block, capsys) for block in blocks]
    assert "torch-expandable" in needs and "Name: value" in needs
    assert "torch-native" in hits and "alloc_ns" in hits
    assert int(samples) > 0


def _printed(code: str, capsys: pytest.CaptureFixture[str]) -> str:
    exec(compile(code, str(PAGE), "exec"), {})
    return capsys.readouterr().out
