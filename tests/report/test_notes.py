"""What is empty for one reason throughout stands below its table, and nothing else leaves it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allocmark.report import markdown
from allocmark.report.notes import Absent, apart, is_figure
from allocmark.store import csv_text
from allocmark.store.table import Cell, Table, empty, label

NAMES = ("allocator", "1 MiB", "1 GiB", "32 GiB")


def table(*rows: tuple[Cell, ...], whole: bool = False) -> Table:
    return Table("t", "T", NAMES[: len(rows[0])], rows, whole=whole)


def names(absent: Absent) -> list[str]:
    return [str(first) for first, _ in absent.owners]


def number(value: float) -> Cell:
    return Cell(f"{value:g} µs", value, "µs")


def test_a_column_that_one_reason_empties_is_named_below_and_not_drawn() -> None:
    shown = table(
        (label("a"), number(1), empty("too large"), empty("too large")),
        (label("b"), empty("no cache"), number(2), empty("too large")),
    )
    drawn, (absent,) = apart(shown)
    assert drawn.columns == NAMES[:3]
    assert [len(row) for row in drawn.rows] == [3, 3]
    assert (names(absent), absent.reason) == (["32 GiB"], "too large")
    text = markdown.table(shown, 2)
    assert "- n/a throughout: 32 GiB: too large" in text
    assert "| 32 GiB" not in text
    assert "32 GiB: note" in csv_text.table(shown), "the file has every cell"


def test_a_column_with_two_reasons_stays() -> None:
    shown = table(
        (label("a"), number(1), empty("too large")), (label("b"), number(2), empty("timed out"))
    )
    assert apart(shown) == (shown, [])


def test_rows_that_are_named_below_do_not_keep_a_column() -> None:
    shown = table(
        (label("a"), number(1), empty("too large")), (label("b"), empty("none"), empty("none"))
    )
    drawn, absent = apart(shown)
    assert drawn.columns == NAMES[:2] and drawn.rows == (shown.rows[0][:2],)
    assert [(names(one), one.reason) for one in absent] == [
        (["b"], "none"),
        (["1 GiB"], "too large"),
    ]


def test_a_table_of_which_no_figure_is_left_is_not_drawn() -> None:
    shown = table((label("a"), empty("one"), empty("two")))
    drawn, absent = apart(shown)
    assert not drawn.rows
    assert [(names(one), one.reason) for one in absent] == [(["1 MiB"], "one"), (["1 GiB"], "two")]


def test_a_column_of_words_after_the_figures_hides_no_value() -> None:
    shown = table((label("a"), number(1), empty("why"), label("-")))
    drawn, (absent,) = apart(shown)
    assert drawn.rows == ((label("a"), number(1), label("-")),)
    assert names(absent) == ["1 GiB"]


def test_a_whole_table_and_one_of_words_are_drawn_as_they_are() -> None:
    whole = table((label("a"), number(1), empty("why")), whole=True)
    words = table((label("a"), label("b")))
    for shown in (whole, words):
        assert apart(shown) == (shown, [])


_CELLS = st.sampled_from([number(1), number(2), empty("x"), empty("y"), label("-")])


@given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[_CELLS] * n), min_size=1)))
def test_every_value_is_drawn_and_every_reason_is_said(rows: list[tuple[Cell, ...]]) -> None:
    shown = table(*((label(f"row {i}"), *row) for i, row in enumerate(rows)))
    drawn, absent = apart(shown)
    before, after = (
        [cell for row in one.rows for cell in row if is_figure(cell)] for one in (shown, drawn)
    )
    assert [c for c in after if c.value is not None] == [c for c in before if c.value is not None]
    told = {cell.reason for cell in after} | {one.reason for one in absent}
    assert {cell.reason for cell in before} <= told | {None}
    for column in zip(*drawn.rows, strict=True):
        reasons = {cell.reason for cell in column}
        assert len(reasons) > 1 or None in reasons
