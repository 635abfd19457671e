"""What was measured beside others says so above everything else, in both languages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from allocmark.report import write_report
from tests.support import report_samples as samples

QUIET: dict[str, Any] = {"other_processes": 0, "slowed_by": []}


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (QUIET, False),
        ({"other_processes": None, "slowed_by": None}, False),
        ({"other_processes": "2", "slowed_by": "heat"}, False),  # Somebody else's: no crash.
        ({**QUIET, "other_processes": 1}, True),
        ({**QUIET, "slowed_by": ["thermal"]}, True),
    ],
)
def test_the_page_and_the_tables_say_so(tmp_path: Path, after: dict[str, Any], told: bool) -> None:
    results = tmp_path / "results"
    one = samples.fragmentation("torch-native", 0.1, 100)
    samples.put(results, one)
    beside = samples.document(
        "placement", "torch-native", conditions={"before": QUIET, "after": after}
    )
    samples.put(results, beside)
    write_report(results, tmp_path / "report")
    english = "Other programs used the GPU, or it was slowed down, while 1 of 2 documents"
    chinese = "测量 2 份结果中的 1 份时，有其他程序在用 GPU"
    page = (tmp_path / "report" / "index.html").read_text()
    assert (english in page, chinese in page) == (told, told)
    assert (english in (tmp_path / "report" / "README.md").read_text()) is told
    write_report(results, tmp_path / "report", "zh")
    texts = [path.read_text() for path in (tmp_path / "report").glob("*zh*.md")]
    assert texts and [chinese in text for text in texts] == [told] * len(texts)
