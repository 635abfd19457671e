"""The example for pull requests: fine, grown, and updated."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pandas as pd
import pytest

import allocmark

_EXAMPLE = Path(__file__).parents[2] / "examples" / "check_smallest_card.py"


@pytest.mark.parametrize(("found", "status"), [(1000, 0), (1009, 0), (1011, 1), (500, 0)])
def test_a_larger_card_fails_the_check(
    found: int, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("check_smallest_card", _EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    rows = pd.DataFrame({"setting": ["torch-native"], "smallest_card_bytes": [found]})
    monkeypatch.setattr(allocmark, "replay", lambda *_a, **_k: rows, raising=False)
    baseline = tmp_path / "smallest_card.json"
    baseline.write_text('{"smallest_card_bytes": 1000}')
    assert example.main(["s.pickle", str(baseline)]) == status
    assert example.main(["s.pickle", str(baseline), "--update"]) == 0
    assert json.loads(baseline.read_text()) == {"smallest_card_bytes": found}
