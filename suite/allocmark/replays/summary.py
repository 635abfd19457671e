"""The answer in a sentence or two: what to do, and why."""

from __future__ import annotations

import math

from allocmark.replays.agreement import in_failing_call
from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.replays.non_allocator_memory import Term, others_bytes
from allocmark.replays.ranking import alike
from allocmark.system.units import format_bytes, format_count, format_need


def summary(answer: ReplayAnswer) -> str:
    """Say what to do; where a replay contradicts the recording, that, and why."""
    best = answer.settings[0] if answer.settings else None
    if best is None or best.smallest_card_bytes is None:
        return "no setting could be replayed to its end: see the reasons"
    agreement = answer.agreement
    if agreement.contradiction:
        return (
            f"{agreement.contradiction}. Cause: {agreement.cause}. So no setting is recommended: "
            "the figures below are those of the replays"
        )
    if not answer.recording.has_history:
        needs = f"at least {_card(best)}"
        return (
            f"the program needs a card with {needs} usable: only what was alive at its end is known"
        )
    text = _chosen(answer, best)
    failed = answer.run.failed
    if failed is not None and failed.reserved_bytes is not None and not answer.limited:
        held = format_bytes(failed.reserved_bytes)
        text = f"a request of {format_bytes(failed.size_bytes)} failed with {held} reserved; {text}"
        text += _more_room(answer)
    if answer.recording.is_floor:
        text = f"at least, as the history begins late: {text}"
    if failed is not None and failed.returned_bytes:
        text += f". {in_failing_call(failed.returned_bytes)}"
    return text


def recommended(answer: ReplayAnswer) -> str | None:
    """Return the line that changes the setting, None where none is better or none is known to be.

    Nothing rests on a replay that contradicts the recording.
    """
    best = answer.settings[0] if answer.settings else None
    known = answer.recording.has_history and not answer.agreement.contradiction
    if best is None or best.smallest_card_bytes is None or best is answer.recorded or not known:
        return None
    if answer.limited and not best.completes:
        return None
    return best.setting.line


def _more_room(answer: ReplayAnswer) -> str:
    """Say that the recorded run had less than the card has: why its own setting fits now."""
    own, room, card = answer.recorded, answer.run.room, answer.card
    if own is None or not own.completes or room is None or card is None:
        return ""
    capacity = card.value_bytes - answer.outside.value_bytes
    held = others_bytes(answer.recording.environment)
    by = f", as other processes held {format_bytes(held)}" if held else ""
    had = f"the recorded run had {format_bytes(room.capacity_bytes)} for its allocator{by}"
    return f". {had}, this card has {format_bytes(capacity)}"


def _chosen(answer: ReplayAnswer, best: SettingAnswer) -> str:
    if answer.limited:
        return _limited(answer, best)
    if best.completes is False:
        return _none_fits(best, answer.recorded, answer.card)
    if best.completes:
        return _fits(best, answer.recorded)
    return _smallest(best, answer.recorded)


def _limited(answer: ReplayAnswer, best: SettingAnswer) -> str:
    """Say what a process needs that limits itself."""
    limit, card = answer.limit, answer.card
    assert limit is not None and card is not None
    own = answer.recorded or best
    text = f"the process limits itself to {limit.in_words}"
    if limit.refused is not None:
        free = format_bytes(limit.refused.device_free_bytes)
        text = f"a limit of the process refused the request, not the GPU ({free} of it were free): "
        text += f"it may reserve {limit.in_words}"
    if best.completes:
        return f"{text}; within it {_fits(best, answer.recorded, 'this limit')}"
    needs = own.reserved_need_bytes or 0
    text += f", and needs {format_need(needs)} under {own.name}"
    if best.reserved_need_bytes and not alike(best.reserved_need_bytes, needs):
        text += f", {format_need(best.reserved_need_bytes)} under {best.setting.line}"
    if limit.fraction is not None:
        text += f", a fraction of {math.ceil(1000 * needs / card.value_bytes) / 1000:g}"
    usable = format_need(needs + answer.outside.value_bytes)
    return f"{text}; without a limit it needs a card with {usable} usable"


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


def _fits(best: SettingAnswer, own: SettingAnswer | None, where: str = "this card") -> str:
    if best is own:
        fits = f"the recorded {own.name} fits {where}{_retries(own)}"
        return f"{fits}: none of the others is better"
    text = f"{best.setting.line} fits {where}{_retries(best)}"
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
