"""``allocmark compare``, ``gate`` and ``history``: what is printed and the exit codes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.compare.comparing import compare
from tests.support import budgets
from tests.support.command import allocmark
from tests.support.compare_samples import STACK, document, exact, hits, put

NEWER = STACK.replace("580.1", "581.2")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    root = tmp_path / "results"
    put(root, document(exact("ooms", 1)))
    put(root, document(exact("ooms", 2), run="r2", started="2026-11-02T00:00:00Z"), NEWER)
    return root


def test_compare_prints_in_each_format(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("compare", STACK, NEWER, "--results", str(results))
    assert allocmark(*words) == 0
    assert capsys.readouterr().out.startswith("1 figure compared: 1 worse")
    assert allocmark(*words, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["verdicts"]["worse"] == 1
    assert allocmark(*words, "--format", "xml") == 2
    assert capsys.readouterr().err.startswith("allocmark: unknown format 'xml'")


def test_gate_ends_with_one_for_a_regression(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert allocmark("gate", "--results", str(results)) == 1
    said = capsys.readouterr().out
    worst = "latency/torch-native/ooms: 1 -> 2"
    assert said.startswith(f"gate: regression: 1 figure is worse ({worst}): test-gpu/{NEWER} ")
    same = ("gate", "--results", str(results), "--against", NEWER)
    assert allocmark(*same) == 2
    assert "is the run itself" in capsys.readouterr().err


def test_gate_says_what_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert allocmark("gate", "--results", str(tmp_path)) == 2
    assert capsys.readouterr().err.startswith("allocmark: no results below")


@pytest.mark.parametrize("format", ["text", "json"])
def test_the_first_run_passes_the_gate(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    format: str,
) -> None:
    put(tmp_path, document(exact("ooms", 1)))
    assert allocmark("gate", "--results", str(tmp_path), "--format", format) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"allocmark: there is nothing before test-gpu/{STACK}")
    words = ("gate", "--results", str(tmp_path), "--against", "elsewhere")
    assert allocmark(*words) == 2


def test_history_says_what_it_lacks(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert allocmark("history", "--results", str(results)) == 2
    assert "is tracked" in capsys.readouterr().err


@budgets.budget
def test_two_folders_of_a_thousand_files_are_compared_soon(tmp_path: Path) -> None:
    """Read by all processors."""
    subjects = [document(*hits(n, count=20), subject=f"torch-{n}") for n in range(20)]
    for root in ("a", "b"):
        for number, one in enumerate(subjects):
            run = replace(one, run=root, figures=subjects[number - (root == "b")].figures)
            content = put(tmp_path / root, run, "torch-stack0").read_bytes()
            for stack in range(1, 50):
                path = tmp_path / root / "test-gpu" / f"torch-stack{stack}" / "quick"
                path.mkdir(parents=True, exist_ok=True)
                (path / f"latency.torch-{number}.json.gz").write_bytes(content)
    begin = time.perf_counter()
    found = compare(str(tmp_path / "a"), str(tmp_path / "b"))
    seconds = time.perf_counter() - begin
    assert found.a.documents == found.b.documents == 1000
    assert len(found.rows) == 50 * 20 * 20
    budgets.note("compare of 1,000 documents with 1,000", seconds, 4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        *(
            (("gate", "--exit-unclear", code), "--exit-unclear")
            for code in ("256", "-1", "999")  # What an exit status of Linux cannot be.
        ),
        (("gate", "--last", "0"), "--last"),
        (("gate", "--rerun", "-1"), "--rerun"),
        (("compare", "", ""), "an empty name stands for nothing: name a stack, a file or a folder"),
        (("compare", "A", ""), "an empty name stands for nothing"),
        (("gate", "--against", ""), "'' is no folder with results and no stack of"),
    ],
)
def test_values_that_mean_nothing_are_refused(
    words: Sequence[str],
    told: str,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where the current folder holds results, which an empty path would be."""
    monkeypatch.chdir(results)
    named = [str(results) if word == "A" else word for word in words]
    assert allocmark(*named, "--results", str(results)) == 2
    assert told in " ".join(capsys.readouterr().err.replace("│", " ").split())
