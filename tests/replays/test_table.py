"""The table for the terminal: the answer first, whole figures, an empty cell has its reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allocmark.experiments.shared.allocator_setting import IDLE
from allocmark.replays import table
from allocmark.replays.driver_pool import Margin
from allocmark.replays.settings import choose
from allocmark.replays.summary import summary
from tests.support.answers import answer, whole

NAMES = [setting.name for setting in choose([], None)]
LONG = (
    "per_process_memory_fraction:0.5,garbage_collection_threshold:0.8,max_split_size_mb:128,"
    "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_segments:True"
)


def test_why_a_card_has_no_answer_is_said_below() -> None:
    unknown = replace(answer("tf-limit", 9, 0.1), reasons={"completes": "no ballast here"})
    found = whole(answer("torch-native*", 3, 0.1, fits=True), unknown)
    assert "- tf-limit on this card: no ballast here" in table.text(found, 110)


@pytest.mark.parametrize("width", [110, 140, 200])
@pytest.mark.parametrize("setting", [LONG, LONG.replace(",", "_"), "torch-native"])
def test_a_figure_is_never_cut(width: int, setting: str) -> None:
    long = answer("torch-native", 1000.53, 12.3456, True, 123)
    long = replace(long, setting=replace(long.setting, name=setting))
    shown = table.text(whole(answer("torch-expandable*", 999.99, 1, True), long), width)
    assert "…" not in shown and "..." not in shown
    joined = "".join(line.split()[0] for line in shown.splitlines() if line.strip())
    assert setting in joined
    for cell in ("fits, 123 retries", "1000.53 GiB", "12.35 s"):
        assert cell in shown


def test_a_name_stands_on_one_line_whatever_its_figures_may_be_off_by() -> None:
    tried = [answer(f"{NAMES[0]}*", 264.8, 0.105, True, 17)]
    tried += [answer(name, 264.8, 0.383, True, 17) for name in NAMES[1:]]
    tried += [replace(answer("torch-async", 264.8, 0.383, True, 17), margin=Margin(7, 33))]
    lines = table.text(whole(*tried), 110).splitlines()
    for name in NAMES:
        assert any(line.startswith(f"{name} ") for line in lines), name
    (off,) = (line for line in lines if line.startswith("torch-async (-7/+33 %) "))
    assert "264.80 GiB" in off


@pytest.mark.parametrize("doubts", [0, 3, 40])
@pytest.mark.parametrize("settings", [1, len(NAMES)])
def test_the_answer_stands_first_in_at_most_30_lines(doubts: int, settings: int) -> None:
    tried = [answer(name + "*" * (n == 0), 9, 1, True) for n, name in enumerate(NAMES[:settings])]
    said = [f"doubt number {n} of a certain length" for n in range(doubts)]
    found = replace(whole(*tried), doubts=said)
    shown, everything = table.text(found, 110), table.text(found, 110, verbose=True)
    assert shown.lower().startswith(summary(found)[:60].lower())
    assert len(shown.splitlines()) <= table.MOST_LINES
    assert all(doubt in everything for doubt in said)
    left_out = "more note" in shown
    assert left_out is (len(everything.splitlines()) > table.MOST_LINES)
    if left_out:
        count = int(shown.splitlines()[-1].split()[0])
        notes = [text.count("\n- ") for text in (shown, everything)]
        assert notes[1] - notes[0] == count
    for name in NAMES[:settings]:
        assert name in shown


def test_a_threshold_that_does_nothing_is_said() -> None:
    idle = replace(answer("torch-gc80", 3, 1, True), in_force=f"x; {IDLE}")
    assert f"- torch-gc80: {IDLE}" in table.text(whole(idle), 110)
    assert IDLE not in table.text(whole(replace(idle, in_force="x")), 110)
