"""The machine's core pace: measured once, kept, and made again where its file is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.errors import NotMeasurableError
from allocmark.probes import machine_pace as module
from allocmark.probes.machine_pace import FILE, machine_pace


def test_it_is_measured_once_for_a_machine(tmp_path: Path) -> None:
    first = machine_pace(tmp_path, "gpu-host")
    assert first is not None
    assert first > 0
    (tmp_path / "gpu-host" / FILE).write_text('{"pace_ns": 123.5}')
    assert machine_pace(tmp_path, "gpu-host") == 123.5


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"pace_ns": "fast"}', '{"pace_ns": null}'])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: str) -> None:
    (tmp_path / "gpu-host").mkdir()
    (tmp_path / "gpu-host" / FILE).write_text(damage)
    assert machine_pace(tmp_path, "gpu-host") == machine_pace(tmp_path, "gpu-host")


def test_without_a_compiler_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing() -> None:
        raise NotMeasurableError("there is no C compiler")

    monkeypatch.setattr(module, "QuietCores", nothing)
    assert machine_pace(tmp_path, "gpu-host") is None
