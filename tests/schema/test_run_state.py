"""The state of a run: what is read of its file, by whom it was written however."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allocmark.compare.run_set import read_run_set
from allocmark.schema import run_state
from allocmark.store.runs import runs_below
from tests.support.compare_samples import document, exact, put

STATE = {"id": "r1", "started": "2026-11-01T00:00:00Z", "suite": "0.1.0"}


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("finished", [None, "2026-11-01T01:00:00Z"])
def test_a_run_without_an_end_is_told_however_it_is_laid_out(
    tmp_path: Path, finished: str | None, indent: int | None
) -> None:
    folder = put(tmp_path, document(exact("ooms", 0))).parent
    text = json.dumps(STATE | {"finished": finished}, indent=indent, separators=(",", ":"))
    (folder / run_state.FILE_NAME).write_text(text)
    assert read_run_set(str(tmp_path), tmp_path).unfinished == (() if finished else (str(folder),))
    assert [run.finished for run in runs_below(tmp_path)] == [finished is not None]


def test_what_a_newer_version_says_besides_is_left_out(tmp_path: Path) -> None:
    (tmp_path / run_state.FILE_NAME).write_text(json.dumps(STATE | {"newer": 1, "whole": False}))
    state = run_state.read(tmp_path)
    assert state is not None and (state.id, state.whole) == ("r1", False)


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"id"', '{"id": "r1"}'])
def test_a_damaged_state_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / run_state.FILE_NAME).write_text(text)
    assert run_state.read(tmp_path) is None


@pytest.mark.parametrize("change", [{"started": 7}, {"whole": "yes"}, {"parts": []}])
def test_a_state_of_wrong_types_is_none(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / run_state.FILE_NAME).write_text(json.dumps(STATE | change))
    assert run_state.read(tmp_path) is None
