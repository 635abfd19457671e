"""Comparing emulated documents with hardware's: what counts as equal, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from allocmark import documents
from allocmark.documents import Document
from allocmark.errors import AllocmarkError
from allocmark.figures import Figure, Kind, Series
from allocmark.report import agreement_emulated


def cell(metric: str, value: float | None, unit: str = "bytes", kind: Kind = "exact") -> Figure:
    reason = "not told" if value is None else None
    return Figure(metric, unit, kind, "counters", {"workload": "w"}, value, reason=reason)


def document(
    emulated: bool, figures: Sequence[Figure], reserved: Sequence[float], subject: str = "native"
) -> Document:
    columns: dict[str, list[float]] = {
        "event": list(range(len(reserved))),
        "reserved": list(reserved),
    }
    return Document(
        probe="fragmentation",
        subject=subject,
        profile="full",
        run="r",
        started="2026-01-02T00:00:00Z",
        seconds=1.0,
        command="allocmark run",
        suite="0.1",
        emulated=emulated,
        stack={"gpu": "Emulated GPU" if emulated else "GPU", "driver": "580"},
        conditions={},
        figures=figures,
        series=[Series("memory", {"workload": "w"}, columns)],
    )


def test_equal_but_for_time() -> None:
    a = [cell("peak", 100), cell("missing", None), cell("replay_seconds", 1, "seconds", "time")]
    b = [cell("peak", 100), cell("missing", None), cell("replay_seconds", 9, "seconds", "time")]
    found = agreement_emulated.compare(document(False, a, [1, 2]), document(True, b, [1, 2]))
    assert found.equal
    assert (len(found.cells), found.cells_equal) == (1, 1)
    assert (found.readings, found.readings_equal, found.first_events) == (2, 2, ())
    assert agreement_emulated.row(found) == ["native", "1", "1", "2", "2", "none", ""]


def test_the_largest_difference_is_of_bytes_and_the_first_event_is_named() -> None:
    a = [cell("peak", 100), cell("device", 200), cell("retries", 1, "retries")]
    b = [cell("peak", 101), cell("device", 220), cell("retries", 3, "retries")]
    found = agreement_emulated.compare(
        document(False, a, [1, 2, 3, 4]), document(True, b, [1, 2, 5, 6])
    )
    assert not found.equal
    row = ["native", "3", "0", "4", "2", "10 %", "device of w"]
    assert agreement_emulated.row(found) == row
    assert found.first_events == (agreement_emulated.Event("w", 2, "reserved", 3, 5),)


def test_a_cell_or_event_of_one_side_is_not_equal() -> None:
    a, b = [cell("peak", 1), cell("device", 2)], [cell("peak", 1), cell("device", None)]
    found = agreement_emulated.compare(document(False, a, [1]), document(True, b, [1, 2]))
    assert not found.equal
    assert found.only_one == ("w curve: 1 events", "w device")
    assert agreement_emulated.row(found)[-1] == "2 on one side only"


def test_a_zero_on_hardware_alone() -> None:
    found = agreement_emulated.compare(
        document(False, [cell("peak", 0)], []), document(True, [cell("peak", 1)], [])
    )
    assert found.cells[0].share == float("inf")


def test_what_cannot_be_compared_is_refused() -> None:
    real, emulated = document(False, [], []), document(True, [], [])
    with pytest.raises(AllocmarkError, match="must be of hardware"):
        agreement_emulated.compare(emulated, real)
    with pytest.raises(AllocmarkError, match="not of one subject"):
        agreement_emulated.compare(real, document(True, [], [], "other"))
    with pytest.raises(AllocmarkError, match="twice"):
        agreement_emulated.compare_all([real, real], [emulated])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, emulated in (("real", False), ("emulated", True)):
        path = documents.path_of(tmp_path / side, "m", "s", "full", "fragmentation", "native")
        documents.write(path, document(emulated, [cell("peak", 1)], [1]))
    out = tmp_path / "page.md"
    folders = [str(tmp_path / "real"), str(tmp_path / "emulated")]
    assert agreement_emulated.main([*folders, "--out", str(out)]) == 0
    text = out.read_text()
    assert "| native | 1 | 1 | 1 | 1 | none |  |" in text
    assert "- hardware: driver 580; gpu GPU; profile full; date 2026-01-02; suite 0.1." in text
    assert agreement_emulated.main([str(tmp_path / "none"), *folders[1:], "--out", str(out)]) == 2
    assert "share no fragmentation document" in capsys.readouterr().err
