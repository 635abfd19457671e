"""Comparing emulated documents with hardware's: what counts as equal, and what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Axis, Figure, Kind, Series
from allocmark.system.errors import AllocmarkError
from allocmark.tools import agreement_emulated
from allocmark.tools.agreement_comparison import compare
from allocmark.tools.agreement_events import Event
from allocmark.tools.agreement_page import render, row
from tests.support.command import allocmark


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
    found = compare(document(False, a, [1, 2]), document(True, b, [1, 2]))
    assert found.equal
    assert (len(found.cells), found.cells_equal) == (1, 1)
    assert (found.readings, found.readings_equal, found.first_events) == (2, 2, ())
    assert row(found) == ["native", "1", "1", "2", "2", "", "", "", "", "none", ""]


def test_the_largest_difference_is_of_bytes_and_the_first_event_is_named() -> None:
    a = [cell("peak", 100), cell("device", 200), cell("retries", 1, "retries")]
    b = [cell("peak", 101), cell("device", 220), cell("retries", 3, "retries")]
    found = compare(document(False, a, [1, 2, 3, 4]), document(True, b, [1, 2, 5, 6]))
    assert not found.equal
    assert row(found) == ["native", "3", "0", "4", "2", "", "", "", "", "10 %", "device of w"]
    assert found.first_events == (Event("w", 2, "reserved", 3, 5),)


def every_event(counter: str, *changes: tuple[int, int], workload: str = "w") -> Series:
    """Return a counter's changes over ten events, as (events later, by how much)."""
    axes: dict[str, Axis] = {"workload": workload, "counter": counter, "events": 10}
    steps, values = zip(*changes, strict=True) if changes else ((), ())
    return Series("every-event", axes, {"event_step": steps, "step": values})


def with_events(emulated: bool, *found: Series) -> Document:
    told = document(emulated, [cell("peak", 1)], [5] * 10)
    return replace(told, series=[*told.series, *found])


def test_events_are_compared_one_by_one_and_the_first_that_differs_is_named() -> None:
    real = with_events(
        False, every_event("reserved_bytes", (1, 20), (4, 20)), every_event("retries")
    )
    found = compare(real, replace(real, emulated=True))
    assert found.equal and found.first_events == ()
    assert row(found)[5:7] == ["10", "10"]
    # One event later, and a retry that hardware does not have: the curve's points miss both.
    other = with_events(
        True, every_event("reserved_bytes", (1, 20), (5, 20)), every_event("retries", (7, 1))
    )
    found = compare(real, other)
    assert not found.equal
    assert row(found)[5:7] == ["10", "5"]  # events 4, and 6 to 9
    assert found.first_events == (Event("w", 4, "reserved_bytes", 40, 20),)


def test_events_on_one_side_are_left_out_and_a_counter_on_one_side_is_named() -> None:
    bare, full = with_events(False), with_events(True, every_event("segments", (1, 1)))
    assert compare(bare, full).courses == ()
    real = with_events(False, every_event("segments", (1, 1)), every_event("ooms"))
    found = compare(real, full)
    assert found.only_one == ("w every event: ooms",) and not found.equal


def with_requests(emulated: bool, *requests: tuple[int, int]) -> Document:
    """Return a document with requests to the driver, as (bytes, address)."""
    sizes, addresses = zip(*requests, strict=True)
    columns = {"bytes": sizes, "address": addresses}
    told = document(emulated, [cell("peak", 1)], [1])
    return replace(
        told, series=[*told.series, Series("driver-requests", {"workload": "w"}, columns)]
    )


def test_requests_are_equal_by_bytes_and_by_the_order_of_addresses() -> None:
    real = with_requests(False, (2, 900), (4, 100), (8, 0), (8, 50))
    found = compare(real, with_requests(True, (2, 90), (4, 80), (8, 0), (8, 70)))
    assert found.equal
    assert row(found)[7:9] == ["4", "4"]
    # Other bytes, and the lower of two neighbours.
    assert row(compare(real, with_requests(True, (2, 90), (5, 80), (8, 0), (8, 70))))[8] == "3"
    assert row(compare(real, with_requests(True, (2, 80), (4, 90), (8, 0), (8, 70))))[8] == "2"
    found = compare(real, with_requests(True, (2, 900), (4, 100), (8, 0)))
    assert row(found)[7:9] == ["4", "1"] and not found.equal


def test_allocators_that_part_at_one_event_share_a_line() -> None:
    told = [
        (real := document(False, [cell("peak", 1)], [1, 2], name), other, compare(real, other))
        for name, last in (("a", 3), ("b", 3), ("c", 4))
        for other in [document(True, [cell("peak", 1)], [1, last], name)]
    ]
    lines = [line for line in render(told).splitlines() if " after event " in line]
    assert lines == [
        "- a, b: w, reserved after event 1 is 2 on hardware, 3 emulated",
        "- c: w, reserved after event 1 is 2 on hardware, 4 emulated",
    ]


def test_a_cell_or_event_of_one_side_is_not_equal() -> None:
    a, b = [cell("peak", 1), cell("device", 2)], [cell("peak", 1), cell("device", None)]
    found = compare(document(False, a, [1]), document(True, b, [1, 2]))
    assert not found.equal
    assert found.only_one == ("w curve: 1 events", "w device")
    assert row(found)[-1] == "2 on one side only"


def test_a_zero_on_hardware_alone() -> None:
    found = compare(document(False, [cell("peak", 0)], []), document(True, [cell("peak", 1)], []))
    assert found.cells[0].share == float("inf")


def test_what_cannot_be_compared_is_refused() -> None:
    real, emulated = document(False, [], []), document(True, [], [])
    with pytest.raises(AllocmarkError, match="must be of hardware"):
        compare(emulated, real)
    with pytest.raises(AllocmarkError, match="not of one subject"):
        compare(real, document(True, [], [], "other"))
    with pytest.raises(AllocmarkError, match="twice"):
        agreement_emulated.compare_all([real, real], [emulated])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, emulated in (("real", False), ("emulated", True)):
        path = documents.path_of(tmp_path / side, "m", "s", "full", "fragmentation", "native")
        documents.write(path, document(emulated, [cell("peak", 1)], [1]))
    out = tmp_path / "page.md"
    command = ("dev", "agreement-emulated", "--out", str(out))
    folders = [str(tmp_path / "real"), str(tmp_path / "emulated")]
    assert allocmark(*command, *folders) == 0
    text = out.read_text()
    assert "| native | 1 | 1 | 1 | 1 |  |  |  |  | none |  |" in text
    assert (
        "- hardware, no framework: driver 580; gpu GPU; profile full; date 2026-01-02; suite 0.1."
        in text
    )
    assert "Other experiments" not in text
    for probe, value in (("placement", 1), ("capacity", 2), ("pressure", 2)):
        for side, emulated in (("real", False), ("emulated", True)):
            cells = [cell("splits", 1), cell("merges", value if emulated else 1)]
            told = replace(document(emulated, cells, []), probe=probe, series=[])
            documents.write(
                documents.path_of(tmp_path / side, "m", "s", "full", probe, "native"), told
            )
    assert allocmark(*command, *folders) == 0
    others = out.read_text().partition("## Other experiments")[2]
    for told_row in (
        "| capacity | native | 2 | 1 |",
        "| placement | native | 2 | 2 |",
        "| pressure | native | 2 | 1 |",
    ):
        assert f"{told_row}\n" in others
    assert allocmark(*command, str(tmp_path / "none"), *folders[1:]) == 2
    assert "share no fragmentation document" in capsys.readouterr().err
