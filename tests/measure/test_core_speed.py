"""The machine's core pace: measured once and kept, and never replaced unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.measure import core_speed as module
from allocmark.measure.core_speed import FILE, core_speed_ns
from allocmark.system.errors import DocumentError, NotMeasurableError


def test_it_is_measured_once_for_a_machine(tmp_path: Path) -> None:
    first = core_speed_ns(tmp_path, "gpu-host")
    assert first is not None
    assert first > 0
    (tmp_path / "gpu-host" / FILE).write_text('{"pace_ns": 123.5}')
    assert core_speed_ns(tmp_path, "gpu-host") == 123.5


@pytest.mark.parametrize("told", ['"fast"', "null", "true", "0", "-584.0", "NaN", "Infinity"])
def test_what_is_no_pace_is_refused(tmp_path: Path, told: str) -> None:
    _refused(tmp_path, f'{{"pace_ns": {told}}}'.encode())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe"])
def test_a_damaged_file_is_refused_and_stays(tmp_path: Path, content: bytes) -> None:
    _refused(tmp_path, content)


def _refused(results: Path, content: bytes) -> None:
    path = results / "gpu-host" / FILE
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=r"machine\.pace holds no pace: .* or delete it"):
        core_speed_ns(results, "gpu-host")
    assert path.read_bytes() == content


def test_without_a_compiler_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise NotMeasurableError("there is no C compiler")

    monkeypatch.setattr(module, "QuietCores", nothing)
    assert core_speed_ns(tmp_path, "gpu-host") is None
