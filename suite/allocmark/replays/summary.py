"""The answer in a sentence or two: what to do, and why."""

from __future__ import annotations

from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.replays.non_allocator_memory import Term
from allocmark.replays.ranking import alike
from allocmark.system.units import format_bytes, format_count, format_need


def summary(answer: ReplayAnswer) -> str:
    """Say what to do."""
    best = answer.settings[0] if answer.settings else None
    if best is None or best.smallest_card_bytes is None:
        return "no setting could be replayed to its end: see the reasons"
    if not answer.recording.has_history:
        return "only what was alive at the end is known: how large a card must be at least"
    if best.completes is False:
        return _none_fits(best, answer.recorded, answer.card)
    if best.completes:
        return _fits(best, answer.recorded)
    return _smallest(best, answer.recorded)


def _none_fits(best: SettingAnswer, own: SettingAnswer | None, card: Term | None) -> str:
    of = f" of {format_bytes(card.value_bytes)}" if card else ""
    text = f"none fits this card{of}: the program itself must need less, or a card with "
    text += f"{_card(best)} usable"
    if best is own:
        return f"{text}; no other setting needs noticeably less than the recorded {own.name}"
    text += f" under {best.setting.line}"
    if own is None or own.smallest_card_bytes is None:
        return text
    return f"{text}; the recorded {own.name} needs {_card(own)}"


def _fits(best: SettingAnswer, own: SettingAnswer | None) -> str:
    if best is own:
        fits = f"the recorded {own.name} fits this card{_retries(own)}"
        return f"{fits}: none of the others is better"
    text = f"{best.setting.line} fits this card{_retries(best)}"
    if own is None or own.smallest_card_bytes is None:
        return f"{text}; it needs {_card(best)}"
    if not own.completes:
        needs = f"it needs {_card(own)}, this {_card(best)}"
        return f"{text}; the recorded {own.name} does not: {needs}"
    if best.figure("capacity_retries") != own.figure("capacity_retries"):
        text += f"; the recorded {own.name} fits{_retries(own)}"
    return text + _time(best, own)


def _smallest(best: SettingAnswer, own: SettingAnswer | None) -> str:
    needs = f"a card with {_card(best)} usable"
    if best is own:
        return f"none of the others is better than the recorded {own.name}: it needs {needs}"
    text = f"{best.setting.line} needs {needs}"
    if own is None or own.smallest_card_bytes is None:
        return text
    if alike(best.smallest_card_bytes, own.smallest_card_bytes):
        return f"{text}, about as the recorded {own.name}{_time(best, own)}"
    return f"{text}, the recorded {own.name} {_card(own)}{_time(best, own)}"


def _card(tried: SettingAnswer) -> str:
    return format_need(tried.smallest_card_bytes or 0)


def _retries(tried: SettingAnswer) -> str:
    count = tried.figure("capacity_retries")
    if count is None:
        return ""
    return f" with {format_count(count, 'retry', 'retries')}" if count else " without a retry"


def _time(best: SettingAnswer, own: SettingAnswer) -> str:
    if not (own.driver_time and best.driver_time):
        return ""
    now, was = best.driver_time.seconds * 1e3, own.driver_time.seconds * 1e3
    return f"; {now:.0f} ms in the driver instead of {was:.0f}"
