"""Which setting is named first, on a card and without one."""

from __future__ import annotations

from dataclasses import replace

from allocmark.replays.answer import SettingAnswer
from allocmark.replays.driver_pool import Margin
from allocmark.replays.ranking import ranked
from allocmark.replays.table import row
from allocmark.system.units import GIB, format_need
from tests.support.answers import answer


def order(*answers: SettingAnswer, of_torch: bool = True) -> list[str]:
    return [one.name for one in ranked(answers, of_torch)]


def test_on_a_card_what_fits_without_retry_and_costs_least() -> None:
    assert order(
        answer("torch-split64", 9, 0.1, fits=False),
        answer("torch-native", 2, 0.01, fits=True, retries=8),
        answer("torch-nocache", 2, 5.0, fits=True),
        answer("torch-expandable", 2.8, 0.2, fits=True),
        answer("torch-split256", 4, 0.1, fits=False),
        answer("torch-roundup4", None, 0.1),
    ) == [
        "torch-expandable",
        "torch-nocache",
        "torch-native",
        "torch-split256",
        "torch-split64",
        "torch-roundup4",
    ]


def test_without_a_card_the_smallest_and_of_those_alike_the_cheapest() -> None:
    assert order(
        answer("torch-nocache", 2.0, 9.0),
        answer("torch-expandable", 2.001, 0.1),
        answer("torch-native", 3.0, 0.01),
    ) == ["torch-expandable", "torch-nocache", "torch-native"]


def test_what_no_line_can_make_comes_after_for_a_program_of_torch() -> None:
    both = (answer("cuda-malloc", 1, 0.1), answer("torch-native", 5, 0.1))
    assert order(*both) == ["torch-native", "cuda-malloc"]
    assert order(*both, of_torch=False) == ["cuda-malloc", "torch-native"]


def test_the_recorded_setting_is_first_where_no_other_gains_anything() -> None:
    for fits in (None, True, False):
        own, other = answer("torch-native*", 2, 0.02, fits), answer("torch-split64", 2, 0.015, fits)
        assert order(own, other)[0] == "torch-native"
    assert order(answer("torch-native*", 2, 9, True), answer("torch-split64", 2, 1, True))[0] == (
        "torch-split64"
    )
    retried = answer("torch-native*", 2, 0.01, True, retries=3)
    assert order(retried, answer("torch-split64", 2.5, 0.01, True))[0] == "torch-split64"
    # Where nothing fits, time is no reason.
    assert order(answer("torch-native*", 2, 9, False), answer("torch-split64", 2, 1, False))[0] == (
        "torch-native"
    )
    assert order(answer("torch-native*", 3, 1, False), answer("torch-split64", 2, 1, False))[0] == (
        "torch-split64"
    )


def test_of_those_that_fit_and_take_as_long_the_one_with_most_memory_to_spare() -> None:
    # 3 and 4 ms are estimates that nobody can tell apart; 8 GiB and 2 are not.
    assert order(
        answer("torch-native*", 9, 0.011, fits=True, retries=1),
        answer("torch-roundup4", 8, 0.003, fits=True),
        answer("torch-expandable", 2, 0.004, fits=True),
    ) == ["torch-expandable", "torch-roundup4", "torch-native"]
    # Where it takes longer, that decides.
    assert order(
        answer("torch-roundup4", 8, 0.003, fits=True), answer("torch-expandable", 2, 0.4, fits=True)
    ) == ["torch-roundup4", "torch-expandable"]


def test_what_may_be_off_gains_a_place_only_where_that_is_decided() -> None:
    def pool(card_gib: float) -> SettingAnswer:
        return replace(answer("torch-async", card_gib, 0.1), margin=Margin(10, 10))

    native = answer("torch-native", 3.0, 0.1)
    assert order(pool(2.5), native) == ["torch-async", "torch-native"]
    assert order(pool(2.8), native) == ["torch-native", "torch-async"]  # 2.52 to 3.08 GiB


def test_a_card_within_what_a_need_may_be_off_is_undecided() -> None:
    def pool(need_gib: float, fits: bool) -> SettingAnswer:
        made = answer("torch-async", need_gib, 0.1, fits)
        need, card = int(need_gib * GIB), 4 * GIB
        figures = {**made.figures, "smallest_capacity_bytes": need, "capacity_bytes": card}
        return replace(made, figures=figures, margin=Margin(10, 10))

    native = answer("torch-native", 3.9, 9.0, fits=True)
    for need, fits in ((3.8, True), (4.2, False)):
        close = pool(need, fits)
        assert close.undecided and close.completes is None
        assert order(close, native) == ["torch-native", "torch-async"]
        shown = ["torch-async (-10/+10 %)", "undecided", format_need(need * GIB)]
        assert row(close, on_card=True)[:3] == shown
    assert pool(3.0, True).completes is True and pool(5.0, False).completes is False
    assert order(pool(3.0, True), native)[0] == "torch-async"  # It takes less time.
    assert not replace(pool(4.2, False), margin=None).undecided
    assert pool(4.0, True).interval(4 * GIB, outside_bytes=GIB) == (
        4 * GIB - 3 * GIB // 10,
        4 * GIB + 3 * GIB // 10,
    )
