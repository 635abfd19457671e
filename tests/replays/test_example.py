"""The example for pull requests: fine, grown, and updated."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import allocmark

_EXAMPLE = Path(__file__).parents[2] / "examples" / "check_smallest_card.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_smallest_card", _EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def replays(monkeypatch: pytest.MonkeyPatch, found: int | None, reason: str | None) -> None:
    row = {"setting": "torch-native", "smallest_card_bytes": found, "reason": reason}
    rows = pd.DataFrame([row])
    monkeypatch.setattr(allocmark, "replay", lambda *_a, **_k: rows, raising=False)


@pytest.mark.parametrize(("found", "status"), [(1000, 0), (1009, 0), (1011, 1), (500, 0)])
def test_a_larger_card_fails_the_check(
    found: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = load()
    replays(monkeypatch, found, None)
    baseline = tmp_path / "smallest_card.json"
    baseline.write_text('{"smallest_card_bytes": 1000}')
    assert example.main(["s.pickle", str(baseline)]) == status
    assert example.main(["s.pickle", str(baseline), "--update"]) == 0
    assert json.loads(baseline.read_text()) == {"smallest_card_bytes": found}


@pytest.mark.parametrize(
    ("found", "reason", "baseline", "words"),
    [
        (1000, None, None, "card.json holds no smallest card: make it with --update"),
        (1000, None, "[]", "card.json holds no smallest card: make it with --update"),
        (None, "no torch", '{"smallest_card_bytes": 1}', "could not be replayed: no torch"),
    ],
)
def test_what_cannot_be_compared_is_no_growth(
    found: int | None,
    reason: str | None,
    baseline: str | None,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    replays(monkeypatch, found, reason)
    file = tmp_path / "card.json"
    if baseline is not None:
        file.write_text(baseline)
    assert load().main(["s.pickle", str(file)]) == 2
    assert words in capsys.readouterr().err
