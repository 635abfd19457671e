"""Answers without a replay."""

from __future__ import annotations

from dataclasses import replace

from allocmark.replaying.answer import SettingAnswer
from allocmark.replaying.driver_time import DriverTime
from allocmark.replaying.settings import choose
from allocmark.units import GIB


def answer(
    name: str, card_gib: float | None, seconds: float, fits: bool | None = None, retries: int = 0
) -> SettingAnswer:
    """Return one setting's answer; a name with an asterisk is the recorded one."""
    recorded = name.endswith("*")
    setting = replace(choose([name.rstrip("*")], None)[0], recorded=recorded)
    card = None if card_gib is None else int(card_gib * GIB)
    figures = {} if fits is None else {"completes": int(fits), "capacity_retries": retries}
    return SettingAnswer(setting, figures, {}, DriverTime(seconds, 1, "test"), card, card)
