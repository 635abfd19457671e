"""The line that says what to do, and the table's cells."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocmark.replays import table
from allocmark.replays.answer import SettingAnswer
from allocmark.replays.summary import summary
from allocmark.system.units import MIB, format_need
from tests.support.answers import answer, whole

LINE = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            (answer("torch-native*", 9, 1, False), answer("torch-split64", 9.01, 1, False)),
            "none fits this card of 4 GiB: the program itself must need less, or a card with "
            "9 GiB usable; no other setting needs noticeably less than the recorded torch-native",
        ),
        (
            (answer("torch-native*", 9, 1, False), answer("torch-split64", 6, 1, False)),
            "none fits this card of 4 GiB: the program itself must need less, or a card with "
            f"6 GiB usable under {LINE}; the recorded torch-native needs 9 GiB",
        ),
        (
            (answer("torch-native*", 2, 1, True), answer("torch-split64", 3, 1, True)),
            "the recorded torch-native fits this card without a retry: "
            "none of the others is better",
        ),
        (
            (answer("torch-native*", 2, 1, True, 1), answer("torch-split64", 3, 2, True)),
            f"{LINE} fits this card without a retry; the recorded torch-native fits with 1 retry; "
            "2000 ms in the driver instead of 1000",
        ),
        (
            (answer("torch-native*", 9, 1, False), answer("torch-split64", 3, 2, True, 2)),
            f"{LINE} fits this card with 2 retries; the recorded torch-native does not: "
            "it needs 9 GiB, this 3 GiB",
        ),
    ],
)
def test_on_a_card(settings: tuple[SettingAnswer, ...], words: str) -> None:
    assert summary(whole(*settings)) == words


def test_without_a_card() -> None:
    own = answer("torch-native*", 3, 1)
    assert summary(whole(own, answer("torch-split64", 2, 2), card=False)) == (
        f"{LINE} needs a card with 2 GiB usable, the recorded torch-native 3 GiB; "
        "2000 ms in the driver instead of 1000"
    )
    assert summary(whole(own, answer("torch-split64", 3, 1), card=False)) == (
        "none of the others is better than the recorded torch-native: "
        "it needs a card with 3 GiB usable"
    )


def test_what_decides_is_right_beside_the_name() -> None:
    assert table.columns(True)[:2] == ("this card", "smallest\ncard")
    assert table.columns(False)[0] == "smallest\ncard"
    cells = table.row(answer("torch-native*", 3, 1, True, 1), True)
    assert cells[:3] == ["torch-native *", "fits, 1 retry", "3 GiB"]
    assert len(cells) == len(table.columns(True)) + 1


@given(st.integers(1, 1 << 45))
def test_what_is_needed_is_never_said_to_be_less(count: int) -> None:
    number, unit = format_need(count).split()
    factor = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    assert count <= Fraction(number) * factor <= count * 1.01 + factor


def test_a_need_a_little_above_a_card_does_not_read_as_the_card() -> None:
    assert format_need(4096 * MIB) == "4 GiB"
    assert format_need(4116.8 * MIB) == "4.03 GiB"
    assert format_need(710.2 * MIB) == "711 MiB"
